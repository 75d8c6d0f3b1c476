#include "seed_list.h"

#include "covnoise/core/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace covnoise {
namespace {

constexpr std::uint64_t kMostSeeds = 1000;

/// Reads one seed at `at` and moves it behind the digits.
bool read_seed(const char*& at, const char* end, std::uint64_t& seed) {
  const auto [behind, error] = std::from_chars(at, end, seed);
  const bool good = error == std::errc() && seed <= std::numeric_limits<std::int64_t>::max();
  at = behind;
  return good;
}

}  // namespace

std::vector<std::uint64_t> seeds_of(const std::string& text) {
  const auto refuse = [&](const std::string& why) { throw Error(fmt::format("--seeds {}: {}", text, why)); };
  std::vector<std::uint64_t> seeds;
  const char *at = text.data(), *end = at + text.size();
  for (bool more = true; more; more = at != end && *at++ == ',') {
    std::uint64_t first = 0;
    bool good = read_seed(at, end, first);
    std::uint64_t last = first;
    if (good && at != end && *at == '-') good = read_seed(++at, end, last) && first <= last;
    if (!good || (at != end && *at != ','))
      refuse("must be seeds from 0 to 9223372036854775807, for example 0,1,2 or 0-2");
    if (last - first >= kMostSeeds) refuse(fmt::format("more than {} seeds", kMostSeeds));
    for (std::uint64_t seed = first; seed <= last; ++seed) {
      if (std::find(seeds.begin(), seeds.end(), seed) != seeds.end()) refuse(fmt::format("seed {} twice", seed));
      seeds.push_back(seed);
    }
  }
  return seeds;
}

}  // namespace covnoise
