#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "src/config/error.h"
#include "src/io/dtype.h"
#include "src/io/file.h"
#include "src/io/safetensors.h"

namespace headwise::io {
namespace {

using Named = const std::pair<const std::string, TensorView>*;

/// Widest numbers first, then by name: so every tensor lies aligned without a hole between two.
std::vector<Named> in_file_order(const std::map<std::string, TensorView>& tensors) {
  std::vector<Named> order;
  for (const auto& named : tensors) order.push_back(&named);
  std::stable_sort(order.begin(), order.end(), [](Named a, Named b) {
    return dtype_bytes(a->second.dtype) > dtype_bytes(b->second.dtype);
  });
  return order;
}

void check(const std::string& name, const TensorView& tensor) {
  if (name == "__metadata__") {
    throw std::invalid_argument(
        "a tensor cannot be called __metadata__: the format keeps that name");
  }
  if (bytes_of(tensor.dtype, tensor.shape) != tensor.data.size()) {
    throw std::invalid_argument(text_of("tensor \"", name, "\" holds ", tensor.data.size(),
                                        " bytes; its shape needs others"));
  }
}

std::string header_text(const std::vector<Named>& order,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  size_t offset = 0;
  for (const Named named : order) {
    const auto& [name, tensor] = *named;
    check(name, tensor);
    const size_t end = offset + tensor.data.size();
    header[name] = {{"dtype", dtype_name(tensor.dtype)},
                    {"shape", tensor.shape},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // the data begins aligned
  return text;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path,
                       const std::map<std::string, TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::vector<Named> order = in_file_order(tensors);
  const std::string header = header_text(order, metadata);
  std::array<unsigned char, 8> length;  // little-endian
  for (size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<unsigned char>(header.size() >> (8 * i));
  }
  File file = File::create(path);
  file.write(std::as_bytes(std::span(length)));
  file.write(std::as_bytes(std::span(header)));
  for (const Named named : order) file.write(named->second.data);
  file.sync();
  file.close();
}

}  // namespace headwise::io
