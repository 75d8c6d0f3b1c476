#pragma once
#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

namespace covnoise::bench {

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

inline double to_thousandths(double value) { return std::round(value * 1000) / 1000; }

/// The elements of a comma-separated list.
inline std::vector<std::string> words(const std::string& list) {
  std::vector<std::string> result;
  std::istringstream stream(list);
  for (std::string word; std::getline(stream, word, ',');) result.push_back(word);
  return result;
}

}  // namespace covnoise::bench
