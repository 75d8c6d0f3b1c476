#include "datasets/formats/tar.h"

#include "fuzz.h"

#include <cstdio>
#include <cstring>

namespace {

/// Puts the right checksum into every block that is not empty: otherwise hardly an input gets past the first header.
std::string with_checksums(std::string_view input) {
  constexpr std::size_t kBlock = 512, kSum = 148, kSumBytes = 8;
  std::string bytes(input);
  for (std::size_t at = 0; at + kBlock <= bytes.size(); at += kBlock) {
    char* block = &bytes[at];
    std::memset(block + kSum, ' ', kSumBytes);
    unsigned sum = 0;
    for (std::size_t i = 0; i < kBlock; ++i) sum += static_cast<unsigned char>(block[i]);
    const bool empty = sum == kSumBytes * ' ';
    if (empty) std::memset(block + kSum, 0, kSumBytes);
    if (!empty) std::snprintf(block + kSum, kSumBytes, "%06o", sum);
  }
  return bytes;
}

}  // namespace

FUZZ_TARGET(tar, 4096) {
  const bool repair = covnoise::fuzz::take_choice(input) % 4 != 0;
  const auto& archive = covnoise::fuzz::input_file(repair ? with_checksums(input) : std::string(input));
  covnoise::unpack_tar(archive, {{"d/one", "/dev/null"}, {"d/two", "/dev/null"}});
}
