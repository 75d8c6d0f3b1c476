#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace covnoise {

/// The bytes of a gzip file that holds `data`. There is no time stamp and no name in it: with one version of zlib,
/// equal data give equal bytes.
std::string gzip(std::string_view data);

/// The data in the bytes of a gzip file, at most `most` bytes of it; an Error begins with `name`.
std::string gunzip(std::string_view bytes, const std::string& name, std::size_t most = std::size_t{1} << 28);

}  // namespace covnoise
