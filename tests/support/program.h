#pragma once
#include "support/paths.h"
#include "support/process.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace covnoise::testing {

/// Starts the program as a process, with a temporary folder.
class ProgramFixture : public ::testing::Test {
 protected:
  struct Result {
    int code;
    std::string output;  ///< standard output and error
  };

  /// `command` comes before the arguments of every run.
  explicit ProgramFixture(std::vector<std::string> command = {}) : command_(std::move(command)) {
    command_.insert(command_.begin(), program());
  }

  Result run(const std::vector<std::string>& arguments) {
    auto words = command_;
    words.insert(words.end(), arguments.begin(), arguments.end());
    Process process(words, folder_ / "log");
    const int code = process.wait();
    return {code, process.output()};
  }

  /// Expects one line with this message and a non-zero exit code.
  void expect_one_line(const std::vector<std::string>& arguments, const std::string& message) {
    const auto [code, output] = run(arguments);
    EXPECT_NE(code, 0);
    EXPECT_THAT(output, ::testing::HasSubstr(message));
    EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 1) << output;
  }

  TemporaryFolder folder_;

 private:
  std::vector<std::string> command_;
};

}  // namespace covnoise::testing
