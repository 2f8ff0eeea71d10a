#include "src/io/manifest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "src/config/error.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/file.h"

namespace headwise::io {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

std::string hex(const unsigned char* bytes, size_t count) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

/// A name of a file in the folder itself: nothing that leads out of it.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

/// The rows of the manifest, by file name.
json read_manifest(const fs::path& path) {
  json manifest;
  try {
    manifest = json::parse(read_file(path));
  } catch (const json::exception& error) {
    throw UserError(text_of(path.string(), ": damaged: this is not JSON: ", error.what()));
  }
  const auto version = manifest.is_object() ? manifest.find("format_version") : manifest.end();
  if (!manifest.is_object() || version == manifest.end() || !version->is_number_integer()) {
    throw UserError(text_of(path.string(), ": damaged: found no format_version"));
  }
  const auto number = version->get<int64_t>();
  if (number != kFormatVersion) {
    throw UserError(text_of(path.string(), ": found format_version ", number,
                            "; this Headwise reads ", kFormatVersion,
                            number > kFormatVersion ? ": a newer one has written it" : ""));
  }
  const auto files = manifest.find("files");
  if (files == manifest.end() || !files->is_object() || files->empty()) {
    throw UserError(text_of(path.string(), ": damaged: lists no files"));
  }
  return *files;
}

/// One file against its row of the manifest.
void verify_file(const fs::path& manifest, const std::string& name, const json& row) {
  const bool is_whole = row.is_object() && row.contains("bytes") && row.contains("sha256") &&
                        row["bytes"].is_number_unsigned() && row["sha256"].is_string();
  if (!is_plain_name(name) || !is_whole) {
    throw UserError(
        text_of(manifest.string(), ": damaged: the row of ", json(name).dump(),
                is_whole ? " is not a file of this folder" : " needs bytes and sha256"));
  }
  const fs::path path = manifest.parent_path() / name;
  const size_t bytes = File::open(path).size();
  const auto expected = row["bytes"].get<uint64_t>();
  if (bytes != expected) {
    throw UserError(
        text_of(path.string(), ": damaged: found ", bytes, " bytes; its manifest says ", expected));
  }
  if (sha256_of_file(path) != row["sha256"].get<std::string>()) {
    throw UserError(text_of(
        path.string(), ": damaged: its bytes are not those the manifest was made of (SHA-256)"));
  }
}

}  // namespace

std::string sha256_of_file(const fs::path& path) {
  File file = File::open(path);
  file.size();  // refuses a folder or a device
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  bool good = context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  std::vector<std::byte> buffer(1 << 20);
  size_t count = buffer.size();
  while (good && count == buffer.size()) {
    count = file.read(buffer);
    good = EVP_DigestUpdate(context.get(), buffer.data(), count) == 1;
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  good = good && EVP_DigestFinal_ex(context.get(), digest.data(), &size) == 1;
  if (!good) throw std::runtime_error("OpenSSL cannot compute SHA-256");
  return hex(digest.data(), size);
}

void write_manifest(const fs::path& folder) {
  json files = json::object();
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file() || entry.is_symlink()) {
      throw std::logic_error(text_of(entry.path().string(), ": a checkpoint holds files only"));
    }
    files[entry.path().filename().string()] = {{"bytes", entry.file_size()},
                                               {"sha256", sha256_of_file(entry.path())}};
  }
  const json manifest = {
      {"format_version", kFormatVersion}, {"headwise", HEADWISE_VERSION}, {"files", files}};
  write_file(folder / kManifestFile, manifest.dump(2) + "\n");
}

void verify(const fs::path& checkpoint) {
  const fs::path manifest = checkpoint / kManifestFile;
  const json files = read_manifest(manifest);
  for (const auto& [name, row] : files.items()) verify_file(manifest, name, row);
}

}  // namespace headwise::io
