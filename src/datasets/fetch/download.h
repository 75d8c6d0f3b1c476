#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace covnoise {

/// Bytes on disk so far, and in total (0: unknown).
using ByteProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// Bytes of a file at most; the largest known archive, CIFAR-10's, has 162 MiB.
constexpr std::uint64_t kLargestDownload = std::uint64_t{256} << 20;

/// Where `url` may redirect to: from https only to https.
std::string redirect_protocols(const std::string& url);

/// Appends the rest of `url` (http or https) to `part`. If the server sends the whole file instead, `part` starts over;
/// if it reports that nothing follows `part` (416), `part` stays as it is. The content may therefore be wrong: the
/// caller compares the checksum. Every byte is written as soon as it arrives, so `part` can be resumed after an
/// interruption or an Error; at the end it is synced. A file of more than `most` bytes is an Error that leaves `part`
/// empty.
void download(const std::string& url, const std::filesystem::path& part, const ByteProgress& progress,
              std::uint64_t most = kLargestDownload);

}  // namespace covnoise
