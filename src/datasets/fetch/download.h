#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace covnoise {

/// Bytes on disk so far, and in total (0: unknown).
using ByteProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// Appends the rest of `url` (http or https) to `part`. If the server sends the whole file instead, `part` starts over;
/// if it reports that nothing follows `part` (416), `part` stays as it is. The content may therefore be wrong: the
/// caller compares the checksum. Every byte is on disk as soon as it arrives, so `part` can be resumed after an
/// interruption or an Error.
void download(const std::string& url, const std::filesystem::path& part, const ByteProgress& progress);

}  // namespace covnoise
