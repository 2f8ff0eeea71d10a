// The safetensors format: named tensors in one file. Torch-free; reading trusts nothing in the
// file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace headwise::io {

enum class Dtype { kF64, kF32, kF16, kBf16, kI64, kI32, kU8, kBool };

size_t dtype_bytes(Dtype dtype);

/// A tensor to write; `data` stays the caller's.
struct TensorView {
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;  // contiguous, row-major
};

/// Writes `tensors` (and string `metadata`) to `path`, syncs the file.
/// @throws UserError naming the path and the system's reason.
void write_safetensors(const std::filesystem::path& path,
                       const std::map<std::string, TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// A whole file in memory, checked: header length, JSON, dtypes, shapes against offsets without
/// overflow, no holes, no overlap, no duplicate name.
class SafetensorsFile {
 public:
  /// @throws UserError naming the path and what is wrong.
  explicit SafetensorsFile(const std::filesystem::path& path);
  SafetensorsFile(SafetensorsFile&&) = default;
  SafetensorsFile& operator=(SafetensorsFile&&) = default;
  SafetensorsFile(const SafetensorsFile&) = delete;  // the views point into bytes_
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  std::vector<std::byte> bytes_;
  std::map<std::string, TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace headwise::io
