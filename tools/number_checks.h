#pragma once
#include <CLI/CLI.hpp>

namespace covnoise {

/// Checks of an option's number whose message a person can read (those of the library print the largest double).
CLI::Validator above_zero();
CLI::Validator at_least_zero();

}  // namespace covnoise
