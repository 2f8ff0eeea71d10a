// SHA-256 of bytes that come in parts.
#pragma once

#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace headwise::data {

class Sha256 {
 public:
  Sha256();
  void update(std::string_view bytes);
  /// Lower-case hexadecimal digest of everything given so far; the sum may go on afterwards.
  std::string hex() const;

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

}  // namespace headwise::data
