// What is written has the bytes the format prescribes, and reads back bit for bit.
#include "src/io/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/cpp/io/io_helpers.h"

namespace headwise::io {
namespace {

template <typename T>
TensorView view(Dtype dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  return {dtype, std::move(shape), std::as_bytes(std::span(values))};
}

TEST(Safetensors, EveryDtypeComesBackBitForBit) {
  const TemporaryFolder folder;
  const std::vector<double> f64 = {0.1, -0.0, std::numeric_limits<double>::quiet_NaN()};
  const std::vector<float> f32 = {1.5F, -2, 3, 4, 5, std::numeric_limits<float>::denorm_min()};
  const std::vector<uint16_t> half = {0x3C00, 0x7E01, 0xFFFF};
  const std::vector<int64_t> i64 = {std::numeric_limits<int64_t>::min(), -1};
  const std::vector<int32_t> i32 = {7};
  const std::vector<uint8_t> u8 = {0, 1, 255};
  const std::vector<uint8_t> flags = {1, 0, 1, 1, 0};
  const std::map<std::string, TensorView> tensors = {
      {"a.bool", view(Dtype::kBool, {5}, flags)},
      {"b.f32", view(Dtype::kF32, {2, 3}, f32)},
      {"c.f64", view(Dtype::kF64, {3, 1, 1}, f64)},
      {"d.f16", view(Dtype::kF16, {3}, half)},
      {"e.bf16", view(Dtype::kBf16, {1, 3}, half)},
      {"f.i64", view(Dtype::kI64, {2}, i64)},
      {"g.i32 scalar", view(Dtype::kI32, {}, i32)},
      {"h.u8 \"quoted\" é\n", view(Dtype::kU8, {3}, u8)},
      {"i.empty", view(Dtype::kF32, {0, 4}, std::vector<float>{})},
  };
  const std::map<std::string, std::string> metadata = {{"format", "pt"}, {"한", "\"\\\n"}};
  write_safetensors(folder / "x", tensors, metadata);
  const SafetensorsFile file(folder / "x");
  EXPECT_EQ(file.metadata(), metadata);
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (const auto& [name, written] : tensors) {
    const TensorView& read = file.tensors().at(name);
    EXPECT_EQ(read.dtype, written.dtype) << name;
    EXPECT_EQ(read.shape, written.shape) << name;
    EXPECT_TRUE(
        std::equal(read.data.begin(), read.data.end(), written.data.begin(), written.data.end()))
        << name;
  }
}

TEST(Safetensors, BytesAreThoseOfTheFormat) {
  const TemporaryFolder folder;
  const std::vector<float> values = {1, 2};
  write_safetensors(folder / "x", {{"w", view(Dtype::kF32, {2}, values)}});
  // Written by hand from the description of the format.
  std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string expected(8, '\0');
  expected[0] = static_cast<char>(header.size());
  expected += header;
  expected += std::string("\x00\x00\x80\x3F\x00\x00\x00\x40", 8);
  EXPECT_EQ(get(folder / "x"), expected);
}

TEST(Safetensors, EveryTensorLiesAligned) {
  const TemporaryFolder folder;
  const std::vector<uint8_t> bytes(64);
  const auto tensor = [&](Dtype dtype, int64_t count) {
    return TensorView{
        dtype,
        {count},
        std::as_bytes(std::span(bytes)).first(dtype_bytes(dtype) * static_cast<size_t>(count))};
  };
  write_safetensors(folder / "x", {{"a", tensor(Dtype::kU8, 3)},
                                   {"b", tensor(Dtype::kF32, 1)},
                                   {"c", tensor(Dtype::kF16, 3)},
                                   {"d", tensor(Dtype::kF64, 2)},
                                   {"e", tensor(Dtype::kBool, 1)}});
  const std::string text = get(folder / "x");
  uint64_t length = 0;
  std::memcpy(&length, text.data(), 8);
  EXPECT_EQ(length % 8, 0U);
  size_t end = 0;
  const auto header = nlohmann::json::parse(text.substr(8, length));
  for (const auto& [name, entry] : header.items()) {
    const std::string dtype = entry["dtype"];
    const size_t bytes_each = dtype == "F64" ? 8 : dtype == "F32" ? 4 : dtype == "F16" ? 2 : 1;
    EXPECT_EQ(entry["data_offsets"][0].get<size_t>() % bytes_each, 0U) << name;
    end = std::max(end, entry["data_offsets"][1].get<size_t>());
  }
  EXPECT_EQ(8 + length + end, text.size());
}

TEST(Safetensors, NothingAtAllIsAFileToo) {
  const TemporaryFolder folder;
  write_safetensors(folder / "x", {});
  EXPECT_TRUE(SafetensorsFile(folder / "x").tensors().empty());
}

TEST(Safetensors, CallersMistakesAreNotUserErrors) {
  const TemporaryFolder folder;
  const std::vector<float> values = {1, 2};
  const auto write = [&](const std::string& name, std::vector<int64_t> shape) {
    write_safetensors(folder / "x", {{name, view(Dtype::kF32, std::move(shape), values)}});
  };
  EXPECT_THROW(write("w", {3}), std::invalid_argument);
  EXPECT_THROW(write("w", {-2}), std::invalid_argument);
  EXPECT_THROW(write("__metadata__", {2}), std::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(folder / "x")) << "nothing is written before the checks";
}

TEST(Safetensors, WritingFailsWithPathAndReason) {
  const TemporaryFolder folder;
  const std::vector<float> values(1000);
  const auto write = [&](const std::filesystem::path& path) {
    return refusal([&] { write_safetensors(path, {{"w", view(Dtype::kF32, {1000}, values)}}); });
  };
  EXPECT_EQ(write("/dev/full"), "/dev/full: cannot write: No space left on device");
  EXPECT_TRUE(
      contains(write(folder / "none/x"), "none/x: cannot create: No such file or directory"));
  EXPECT_TRUE(contains(write(folder), ": cannot create: Is a directory"));
}

TEST(Safetensors, ReadingFailsWithPathAndReason) {
  const TemporaryFolder folder;
  const auto read = [](const std::filesystem::path& path) {
    return refusal([&] { SafetensorsFile{path}; });
  };
  EXPECT_TRUE(contains(read(folder / "x"), "x: cannot open: No such file or directory"));
  EXPECT_TRUE(contains(read(folder), ": cannot read: Is a directory"));
  EXPECT_TRUE(contains(read("/dev/zero"), "/dev/zero: cannot read: this is not a regular file"));
}

}  // namespace
}  // namespace headwise::io
