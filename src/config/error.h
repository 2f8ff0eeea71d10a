// The one exception for mistakes a user can mend: bad arguments, bad files, bad configurations.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace headwise {

/// Process exit codes. A run stopped by signal n exits with 128 + n.
enum ExitCode : int { kExitOk = 0, kExitFailure = 1, kExitUsage = 2 };

/// Thrown for a mistake outside the program. `what()` is the whole message: it names the place,
/// what was found and what is needed. The command line prints it as one `headwise: error:` and
/// exits.
class UserError : public std::runtime_error {
 public:
  explicit UserError(const std::string& message, int exit_code = kExitFailure)
      : std::runtime_error(message), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

/// Concatenates its arguments as an output stream would print them.
template <typename... Parts>
std::string text_of(Parts&&... parts) {
  std::ostringstream out;
  (out << ... << std::forward<Parts>(parts));
  return out.str();
}

}  // namespace headwise
