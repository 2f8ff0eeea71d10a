#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "src/config/error.h"
#include "src/io/dtype.h"
#include "src/io/file.h"
#include "src/io/safetensors.h"

namespace headwise::io {
namespace {

using nlohmann::json;

constexpr size_t kLengthBytes = 8;
constexpr size_t kLargestHeader = 100'000'000;
constexpr std::string_view kMetadata = "__metadata__";

/// Found in a file; the path is put before it.
struct Malformed {
  std::string text;
};

template <typename... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw Malformed{text_of(parts...)};
}

/// JSON without what the parser lets pass: a key given twice, nesting without end, a zero byte.
json parse_header(const std::string& text) {
  constexpr int kDeepest = 3;
  if (text.empty() || text.front() != '{') refuse("the header does not begin with {");
  // The parser takes a zero byte for the end of the text.
  if (text.find('\0') != std::string::npos) refuse("the header is not JSON: it holds a zero byte");
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kDeepest) refuse("the header is nested deeper than the format");
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key &&
        !keys.back().insert(parsed.get<std::string>()).second) {
      refuse("the header names \"", parsed.get<std::string>(), "\" twice");
    }
    return true;
  };
  try {
    return json::parse(text, watch);
  } catch (const json::exception& error) {
    refuse("the header is not JSON: ", error.what());
  }
}

/// A list of whole numbers from 0 to the largest int64.
std::vector<int64_t> numbers_of(const json& value, const std::string& place) {
  if (!value.is_array()) refuse(place, " is not a list");
  std::vector<int64_t> numbers;
  for (const json& number : value) {
    if (!number.is_number_unsigned() ||
        number.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      refuse(place, " holds ", number.dump(), "; needed whole numbers, at least 0");
    }
    numbers.push_back(number.get<int64_t>());
  }
  return numbers;
}

/// A tensor of the header, before its bytes are there.
struct Placed {
  std::string name;
  TensorView tensor;
  size_t begin = 0, end = 0;
};

Placed placed(const std::string& name, const json& entry) {
  const std::string place = "tensor \"" + name + "\"";
  if (!entry.is_object()) refuse(place, " is not described by an object");
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!entry.contains(key)) refuse(place, " has no ", key);
  }
  if (entry.size() != 3) refuse(place, " has other keys than dtype, shape and data_offsets");
  const json& dtype_text = entry["dtype"];
  const auto dtype =
      dtype_text.is_string() ? dtype_from_name(dtype_text.get<std::string>()) : std::nullopt;
  if (!dtype) refuse(place, " has the dtype ", dtype_text.dump(), ", which is not supported");
  Placed result{name, {*dtype, numbers_of(entry["shape"], "the shape of " + place), {}}};
  const auto offsets = numbers_of(entry["data_offsets"], "data_offsets of " + place);
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    refuse("data_offsets of ", place, " are no begin and end");
  }
  result.begin = static_cast<size_t>(offsets[0]);
  result.end = static_cast<size_t>(offsets[1]);
  const auto bytes = bytes_of(*dtype, result.tensor.shape);
  if (!bytes) refuse("the shape of ", place, " overflows");
  if (*bytes != result.end - result.begin) {
    refuse(place, " has ", result.end - result.begin, " bytes of data; its shape needs ", *bytes);
  }
  return result;
}

std::map<std::string, std::string> metadata_of(const json& entry) {
  if (!entry.is_object()) refuse(kMetadata, " is not an object");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) refuse(kMetadata, " holds a value that is not text: \"", key, "\"");
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

/// The tensors must follow each other without a hole or an overlap and fill the data exactly.
void check_layout(std::vector<Placed>& tensors, size_t data_bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const Placed& a, const Placed& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  size_t end = 0;
  for (const Placed& tensor : tensors) {
    if (tensor.begin != end) {
      refuse("the data of tensor \"", tensor.name, "\" begins at byte ", tensor.begin, "; needed ",
             end, tensor.begin < end ? " (overlap)" : " (hole)");
    }
    end = tensor.end;
  }
  if (end > data_bytes) {
    refuse("the tensors need ", end, " bytes, the file holds ", data_bytes, ": it is truncated");
  }
  if (end < data_bytes) refuse(data_bytes - end, " bytes after the last tensor belong to none");
}

size_t read_length(File& file, size_t file_bytes) {
  if (file_bytes < kLengthBytes) refuse("the file has ", file_bytes, " bytes: it is truncated");
  std::array<unsigned char, kLengthBytes> bytes{};
  file.read(std::as_writable_bytes(std::span(bytes)));
  uint64_t length = 0;
  for (size_t i = 0; i < bytes.size(); ++i) length |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  if (length > kLargestHeader) refuse("a header of ", length, " bytes; at most ", kLargestHeader);
  if (length > file_bytes - kLengthBytes) {
    refuse("a header of ", length, " bytes in a file of ", file_bytes, ": it is truncated");
  }
  return length;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) {
  File file = File::open(path);
  const size_t file_bytes = file.size();
  try {
    std::string header(read_length(file, file_bytes), '\0');
    file.read(std::as_writable_bytes(std::span(header)));
    std::vector<Placed> found;
    const json parsed = parse_header(header);
    for (const auto& [name, entry] : parsed.items()) {
      if (name == kMetadata) {
        metadata_ = metadata_of(entry);
      } else {
        found.push_back(placed(name, entry));
      }
    }
    const size_t data_bytes = file_bytes - kLengthBytes - header.size();
    check_layout(found, data_bytes);
    bytes_.resize(data_bytes);
    if (file.read(bytes_) != data_bytes) refuse("the file became shorter while it was read");
    for (Placed& tensor : found) {
      tensor.tensor.data = std::span(bytes_).subspan(tensor.begin, tensor.end - tensor.begin);
      const auto no_bool = [](std::byte byte) { return byte > std::byte{1}; };
      if (tensor.tensor.dtype == Dtype::kBool &&
          std::any_of(tensor.tensor.data.begin(), tensor.tensor.data.end(), no_bool)) {
        refuse("tensor \"", tensor.name, "\" of dtype BOOL holds other bytes than 0 and 1");
      }
      tensors_.emplace(std::move(tensor.name), std::move(tensor.tensor));
    }
  } catch (const Malformed& malformed) {
    throw UserError(text_of(path.string(), ": not a whole safetensors file: ", malformed.text));
  }
}

}  // namespace headwise::io
