#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace covnoise {

/// SHA-256 as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::string_view bytes);
/// The same for a file, which is read in pieces.
std::string sha256_hex_of_file(const std::filesystem::path& path);

}  // namespace covnoise
