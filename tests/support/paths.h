#pragma once
#include <filesystem>
#include <string>

namespace covnoise::testing {

/// The program that is tested, and the source tree. Functions of one source file, instead of definitions for all: a
/// compiler's cache then takes the tests of one clone for another.
std::string program();
std::filesystem::path source_dir();

}  // namespace covnoise::testing
