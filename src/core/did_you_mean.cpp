#include "covnoise/core/internal/did_you_mean.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace covnoise {
namespace {

constexpr std::size_t kLongestHinted = 64;  // a longer one gets no hint: the distance takes time proportional to it

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);  // distances of the letters of a seen so far to each prefix of b
  std::iota(row.begin(), row.end(), 0);
  for (const char letter : a) {
    int diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const int replaced = diagonal + (letter != b[j] ? 1 : 0);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string unknown_name(std::string_view kind, std::string_view name, const std::vector<std::string>& known) {
  std::string hint;
  if (name.size() <= kLongestHinted && !known.empty()) {
    const auto closest = std::min_element(known.begin(), known.end(), [&](const auto& a, const auto& b) {
      return edit_distance(name, a) < edit_distance(name, b);
    });
    const bool close = edit_distance(name, *closest) <= std::max<int>(1, static_cast<int>(name.size()) * 2 / 5);
    if (close) hint = fmt::format(" (did you mean {}?)", *closest);
  }
  return fmt::format("unknown {} {}{}; known: {}", kind, name, hint, fmt::join(known, ", "));
}

}  // namespace covnoise
