// A reader that trusts nothing: every way to be wrong is named.
#include <gtest/gtest.h>

#include <random>

#include "src/io/safetensors.h"
#include "tests/cpp/io/io_helpers.h"

namespace headwise::io {
namespace {

/// A file of that header and `data` bytes of data.
std::string file_of(const std::string& header, size_t data) {
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return text + header + std::string(data, '\1');
}

std::string length_of(uint64_t length) {
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>(length >> (8 * i) & 0xFF);
  return text;
}

/// One tensor `w` described by `fields`.
std::string tensor(const std::string& fields, size_t data = 8) {
  return file_of("{\"w\":{" + fields + "}}", data);
}

std::string read(const std::string& bytes) {
  static const TemporaryFolder folder;
  put(folder / "x", bytes);
  return refusal([&] { SafetensorsFile{folder / "x"}; });
}

TEST(SafetensorsMalformed, EveryKindIsNamed) {
  const std::string shape = "\"dtype\":\"F32\",\"shape\":[2],";
  const std::string good = shape + "\"data_offsets\":[0,8]";
  ASSERT_EQ(read(tensor(good)), "");
  const auto with_shape = [](const std::string& sizes) {
    return tensor("\"dtype\":\"F32\",\"shape\":" + sizes + ",\"data_offsets\":[0,8]");
  };
  const auto with_offsets = [&](const std::string& offsets, size_t data = 8) {
    return tensor(shape + "\"data_offsets\":" + offsets, data);
  };
  const auto two = [](const std::string& first, const std::string& second, size_t data) {
    const std::string fields = "\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":";
    return file_of("{\"a\":{" + fields + first + "},\"b\":{" + fields + second + "}}", data);
  };
  const struct {
    std::string bytes, reason;
  } cases[] = {
      {"", "the file has 0 bytes: it is truncated"},
      {"1234567", "the file has 7 bytes: it is truncated"},
      {length_of(0), "the header does not begin with {"},
      {length_of(1000) + "{}", "a header of 1000 bytes in a file of 10: it is truncated"},
      {length_of(100'000'001) + "{}", "a header of 100000001 bytes; at most 100000000"},
      {length_of(~uint64_t{0}) + "{}", "a header of 18446744073709551615 bytes; at most"},
      {length_of(uint64_t{1} << 63) + "{}", "a header of 9223372036854775808 bytes; at most"},
      {file_of("[]", 0), "the header does not begin with {"},
      {file_of(" {}", 0), "the header does not begin with {"},
      {file_of("{\"w\":", 0), "the header is not JSON"},
      {file_of("{} {}", 0), "the header is not JSON"},
      {file_of(std::string("{}\0\0", 4), 0), "the header is not JSON"},
      {file_of("{\"\xE9\":1}", 0), "the header is not JSON"},
      {file_of("{\"w\":" + std::string(100000, '['), 0), "nested deeper"},
      {file_of("{\"w\":3}", 8), "tensor \"w\" is not described by an object"},
      {file_of("{\"w\":{" + good + "},\"w\":{" + good + "}}", 8), "the header names \"w\" twice"},
      {tensor(good + ",\"shape\":[2]"), "the header names \"shape\" twice"},
      {tensor(good + ",\"other\":1"), "has other keys"},
      {tensor("\"shape\":[2],\"data_offsets\":[0,8]"), "tensor \"w\" has no dtype"},
      {tensor("\"dtype\":\"F32\",\"data_offsets\":[0,8]"), "tensor \"w\" has no shape"},
      {tensor("\"dtype\":\"F32\",\"shape\":[2]"), "tensor \"w\" has no data_offsets"},
      {tensor("\"dtype\":\"F8_E4M3\",\"shape\":[8],\"data_offsets\":[0,8]"), "\"F8_E4M3\""},
      {tensor("\"dtype\":\"f32\",\"shape\":[2],\"data_offsets\":[0,8]"), "\"f32\""},
      {tensor("\"dtype\":3,\"shape\":[2],\"data_offsets\":[0,8]"), "has the dtype 3"},
      {with_shape("2"), "the shape of tensor \"w\" is not a list"},
      {with_shape("[-2]"), "the shape of tensor \"w\" holds -2"},
      {with_shape("[2.0]"), "the shape of tensor \"w\" holds 2.0"},
      {with_shape("[\"2\"]"), "the shape of tensor \"w\" holds \"2\""},
      {with_shape("[[2]]"), "nested deeper"},
      {with_shape("[3]"), "tensor \"w\" has 8 bytes of data; its shape needs 12"},
      {with_shape("[18446744073709551615]"), "the shape of tensor \"w\" holds"},
      {with_shape("[4611686018427387904,4]"), "the shape of tensor \"w\" overflows"},
      {with_shape("[9223372036854775807,2,9223372036854775807]"), "overflows"},
      // 2^62 * 4 bytes = 2^64 = 0 in a careless product; with one more float it is 4.
      {tensor("\"dtype\":\"F32\",\"shape\":[4611686018427387905],\"data_offsets\":[0,4]", 4),
       "overflows"},
      {with_offsets("[0]"), "are no begin and end"},
      {with_offsets("[0,8,8]"), "are no begin and end"},
      {with_offsets("[8,0]"), "are no begin and end"},
      {with_offsets("[-8,0]"), "data_offsets of tensor \"w\" holds -8"},
      {with_offsets("[0,8]", 7), "the tensors need 8 bytes, the file holds 7: it is truncated"},
      {with_offsets("[0,8]", 0), "the tensors need 8 bytes, the file holds 0: it is truncated"},
      {with_offsets("[0,8]", 9), "1 bytes after the last tensor belong to none"},
      {with_offsets("[4,12]", 12), "begins at byte 4; needed 0 (hole)"},
      {with_offsets("[9223372036854775799,9223372036854775807]"), "(hole)"},
      {two("[0,4]", "[0,4]", 4), "the data of tensor \"b\" begins at byte 0; needed 4 (overlap)"},
      {two("[0,4]", "[2,6]", 6), "begins at byte 2; needed 4 (overlap)"},
      {two("[0,4]", "[5,9]", 9), "begins at byte 5; needed 4 (hole)"},
      {file_of("{}", 1), "1 bytes after the last tensor belong to none"},
      {file_of("{\"__metadata__\":3}", 0), "__metadata__ is not an object"},
      {file_of("{\"__metadata__\":{\"a\":3}}", 0), "__metadata__ holds a value that is not text"},
      {file_of("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0), "names \"a\" twice"},
  };
  for (const auto& c : cases) {
    const std::string message = read(c.bytes);
    EXPECT_TRUE(contains(message, ": not a whole safetensors file: ")) << c.reason;
    EXPECT_TRUE(contains(message, c.reason)) << c.reason << "\ngot: " << message;
  }
}

TEST(SafetensorsMalformed, ABoolIsZeroOrOne) {
  std::string bytes = tensor("\"dtype\":\"BOOL\",\"shape\":[8],\"data_offsets\":[0,8]");
  EXPECT_EQ(read(bytes), "");
  bytes.back() = '\2';
  EXPECT_TRUE(contains(read(bytes), "holds other bytes than 0 and 1"));
}

TEST(SafetensorsMalformed, TensorsMayStandInAnyOrder) {
  const std::string header = R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},)"
                             R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                             R"("c":{"dtype":"I64","shape":[0],"data_offsets":[4,4]}}   )";
  EXPECT_EQ(read(file_of(header, 6)), "");
}

// Any damage ends in a UserError or in tensors that lie inside the file (the sanitizer build
// looks).
TEST(SafetensorsMalformed, RandomDamageNeverEscapes) {
  const std::string good = file_of(
      R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"b":{"dtype":"U8","shape":[3],)"
      R"("data_offsets":[16,19]},"__metadata__":{"k":"v"}})",
      19);
  ASSERT_EQ(read(good), "");
  static const TemporaryFolder folder;
  std::mt19937 random(1);
  int accepted = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string bytes = good;
    for (unsigned n = 1 + random() % 3; n > 0; --n) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    put(folder / "x", bytes);
    try {
      const SafetensorsFile file(folder / "x");
      unsigned sum = 0;
      for (const auto& [name, view] : file.tensors()) {
        for (const std::byte byte : view.data) sum += static_cast<unsigned>(byte);
      }
      accepted += sum > 0;
    } catch (const UserError&) {
    }
  }
  EXPECT_GT(accepted, 0) << "damage of the data alone is the manifest's business";
}

}  // namespace
}  // namespace headwise::io
