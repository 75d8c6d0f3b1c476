#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace covnoise {

/// Bytes on disk so far, and in all (0: not known).
using ByteProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// Downloads `url` (http or https) to the end of `part`: what is there already is not asked for again. A server that
/// sends the whole file nevertheless is taken at its word and `part` begins anew; one that says there is nothing after
/// `part` (416) leaves it as it is. So the result may be wrong in content, and the caller compares its checksum.
/// Every byte is on disk as soon as it came: after an interruption, or an Error, `part` can be gone on with.
void download(const std::string& url, const std::filesystem::path& part, const ByteProgress& progress);

}  // namespace covnoise
