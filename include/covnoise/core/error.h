#pragma once
#include <stdexcept>
#include <string>

namespace covnoise {

/// An error of the user or the environment. Its message is one line that says what is wrong, where (file, byte, line,
/// key) and what to do. The program prints it and exits with `exit_code`. Programming errors are
/// TORCH_INTERNAL_ASSERTs instead.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, int exit_code = 1) : std::runtime_error(message), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

/// Throws an Error with this message unless `good`.
inline void require(bool good, const std::string& message) {
  if (!good) throw Error(message);
}

}  // namespace covnoise
