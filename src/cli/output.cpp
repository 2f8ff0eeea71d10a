#include "src/cli/output.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "src/config/error.h"
#include "src/config/interrupt.h"

namespace headwise::cli {
namespace {

[[noreturn]] void raise_write_error() {
  if (errno == EPIPE) throw Interrupted{SIGPIPE};
  throw UserError(std::string("cannot write to standard output: ") + std::strerror(errno));
}

}  // namespace

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) raise_write_error();
}

void flush_output() {
  if (std::fflush(stdout) != 0) raise_write_error();
}

}  // namespace headwise::cli
