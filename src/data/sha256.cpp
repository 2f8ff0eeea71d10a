#include "src/data/sha256.h"

#include <openssl/evp.h>

#include <stdexcept>

namespace headwise::data {
namespace {

std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> new_context() {
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (!context) throw std::runtime_error("OpenSSL: no memory for a digest");
  return context;
}

void require(int result) {
  if (result != 1) throw std::runtime_error("OpenSSL: SHA-256 failed");
}

}  // namespace

Sha256::Sha256() : context_(new_context()) {
  require(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
}

void Sha256::update(std::string_view bytes) {
  require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
}

std::string Sha256::hex() const {
  const auto copy = new_context();
  require(EVP_MD_CTX_copy_ex(copy.get(), context_.get()));
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  require(EVP_DigestFinal_ex(copy.get(), digest, &size));
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    text += "0123456789abcdef"[digest[i] >> 4];
    text += "0123456789abcdef"[digest[i] & 15];
  }
  return text;
}

}  // namespace headwise::data
