#pragma once
#include <CLI/CLI.hpp>

namespace covnoise {

/// Checks of a numeric option with readable messages (those of CLI11 print the largest double).
CLI::Validator above_zero();
CLI::Validator at_least_zero();

}  // namespace covnoise
