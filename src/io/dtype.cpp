#include "src/io/dtype.h"

#include <array>
#include <limits>

namespace headwise::io {
namespace {

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  size_t bytes;
};

constexpr std::array<DtypeRow, 8> kDtypes = {{{Dtype::kF64, "F64", 8},
                                              {Dtype::kF32, "F32", 4},
                                              {Dtype::kF16, "F16", 2},
                                              {Dtype::kBf16, "BF16", 2},
                                              {Dtype::kI64, "I64", 8},
                                              {Dtype::kI32, "I32", 4},
                                              {Dtype::kU8, "U8", 1},
                                              {Dtype::kBool, "BOOL", 1}}};

const DtypeRow& row_of(Dtype dtype) { return kDtypes.at(static_cast<size_t>(dtype)); }

}  // namespace

size_t dtype_bytes(Dtype dtype) { return row_of(dtype).bytes; }

std::string_view dtype_name(Dtype dtype) { return row_of(dtype).name; }

std::optional<Dtype> dtype_from_name(std::string_view name) {
  for (const DtypeRow& row : kDtypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

std::optional<size_t> bytes_of(Dtype dtype, const std::vector<int64_t>& shape) {
  // A zero makes the product 0, whatever else there is; an overflow before it is none.
  for (const int64_t size : shape) {
    if (size == 0) return 0;
  }
  size_t bytes = dtype_bytes(dtype);
  for (const int64_t size : shape) {
    if (size < 0 || static_cast<size_t>(size) > std::numeric_limits<size_t>::max() / bytes) {
      return std::nullopt;
    }
    bytes *= static_cast<size_t>(size);
  }
  return bytes;
}

}  // namespace headwise::io
