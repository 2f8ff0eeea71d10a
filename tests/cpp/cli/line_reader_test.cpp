#include "src/cli/line_reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "src/config/error.h"

namespace headwise::cli {
namespace {

struct Pipe {
  Pipe() {
    if (::pipe(ends) != 0) throw std::runtime_error("pipe");
  }
  ~Pipe() {
    ::close(ends[0]);
    close_writer();
  }
  void write(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t written = ::write(ends[1], text.data(), text.size());
      if (written < 0) throw std::runtime_error("write");
      text.remove_prefix(size_t(written));
    }
  }
  void close_writer() {
    if (ends[1] >= 0) ::close(ends[1]);
    ends[1] = -1;
  }
  int ends[2] = {-1, -1};
};

std::vector<std::string> lines_of(const std::vector<std::string>& chunks) {
  Pipe pipe;
  // In a thread of its own: a pipe holds only so much.
  std::thread writer([&] {
    for (const std::string& chunk : chunks) pipe.write(chunk);
    pipe.close_writer();
  });
  std::vector<std::string> lines;
  LineReader reader(pipe.ends[0], [] {});
  while (const std::optional<std::string> line = reader.next()) lines.push_back(*line);
  EXPECT_FALSE(reader.next()) << "the end stays the end";
  writer.join();
  return lines;
}

using Lines = std::vector<std::string>;

TEST(LineReader, OnlyLfEndsALineAndTakesOneCrWithIt) {
  EXPECT_EQ(lines_of({}), Lines{});
  EXPECT_EQ(lines_of({"\n"}), Lines{""});
  EXPECT_EQ(lines_of({"a\n\nb\r\nc\r\r\n"}), (Lines{"a", "", "b", "c\r"}));
  EXPECT_EQ(lines_of({"a\rb\u2028c\x0b\n"}), Lines{"a\rb\u2028c\x0b"});
  EXPECT_EQ(lines_of({std::string("a\0b\n", 4)}), Lines{std::string("a\0b", 3)});
}

TEST(LineReader, ALastLineNeedsNoLf) {
  EXPECT_EQ(lines_of({"a\nb"}), (Lines{"a", "b"}));
  EXPECT_EQ(lines_of({"\r"}), Lines{"\r"}) << "a CR belongs to an LF only";
}

TEST(LineReader, LinesMayComeInPiecesOfAnySize) {
  std::string text;
  Lines expected;
  for (size_t i = 0; i < 400; ++i) {
    expected.push_back(std::string(i * 37 % 3001, char('a' + i % 26)));
    text += expected.back() + (i % 3 == 0 ? "\r\n" : "\n");
  }
  for (const size_t size : {size_t{7}, size_t{65536}, text.size()}) {
    Lines chunks;
    for (size_t i = 0; i < text.size(); i += size) chunks.push_back(text.substr(i, size));
    EXPECT_EQ(lines_of(chunks), expected) << size;
  }
}

TEST(LineReader, AStopEndsTheWait) {
  Pipe pipe;
  pipe.write("whole\nhalf");
  int calls = 0;
  LineReader reader(pipe.ends[0], [&] {
    if (++calls == 4) throw 15;
  });
  EXPECT_EQ(reader.next(), "whole");
  EXPECT_THROW(reader.next(), int);
}

TEST(LineReader, WhatCannotBeReadIsAnError) {
  Pipe pipe;
  LineReader writer(pipe.ends[1], [] {});
  pipe.close_writer();
  EXPECT_THROW(writer.next(), UserError);
}

}  // namespace
}  // namespace headwise::cli
