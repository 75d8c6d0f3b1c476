#include "plot/layout/ticks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace covnoise::plot {
namespace {

std::string superscript(int exponent) {
  static const char* const kDigits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = exponent < 0 ? "⁻" : "";
  for (const char c : std::to_string(std::abs(exponent))) text += kDigits[c - '0'];
  return text;
}

/// Groups the digits before the point by three.
std::string grouped(std::string digits) {
  const std::size_t point = std::min(digits.find('.'), digits.size());
  if (point <= 4) return digits;
  for (std::size_t i = point; i > 3; i -= 3) digits.insert(i - 3, "\u202f");
  return digits;
}

std::string power_label(double mantissa, int exponent) {
  const std::string power = "10" + superscript(exponent);
  return mantissa == 1 ? power : fmt::format("{:g}×{}", mantissa, power);
}

/// The smallest of 1, 2, 5 times a power of ten that is at least `step`.
double nice_step(double step) {
  const double power = std::pow(10, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

/// The first and the last multiple of `step` in the range, divided by `step`.
std::pair<long, long> multiples(Range range, double step) {
  return {static_cast<long>(std::ceil(range.min / step - 1e-6)),
          static_cast<long>(std::floor(range.max / step + 1e-6))};
}

void add_between(std::vector<Tick>& ticks, Range range, double value, std::string label) {
  if (value >= range.min * (1 - 1e-9) && value <= range.max * (1 + 1e-9)) ticks.push_back({value, std::move(label)});
}

}  // namespace

std::string number_label(double value, int decimals) {
  if (value < 0) return "−" + number_label(-value, decimals);
  if (value != 0 && (value >= 1e6 || value < 1e-4)) {
    const int exponent = static_cast<int>(std::floor(std::log10(value * (1 + 1e-12))));
    return power_label(std::round(value / std::pow(10, exponent) * 1000) / 1000, exponent);
  }
  return grouped(fmt::format("{:.{}f}", value, decimals));
}

std::vector<Tick> linear_ticks(Range range, int most) {
  double step = nice_step((range.max - range.min) / std::max(1, most - 1));
  auto [first, last] = multiples(range, step);
  if (last <= first) {  // a single number is no scale
    step = nice_step(step / 2.5);
    std::tie(first, last) = multiples(range, step);
  }
  const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  std::vector<Tick> ticks;
  for (long i = first; i <= last; ++i) {
    const double value = static_cast<double>(i) * step;
    ticks.push_back({value, i == 0 ? "0" : number_label(value, decimals)});
  }
  return ticks;
}

std::vector<Tick> log_ticks(Range range, int most) {
  const int first = static_cast<int>(std::floor(std::log10(range.min) + 1e-9));
  const int last = static_cast<int>(std::ceil(std::log10(range.max) - 1e-9));
  const double decades = std::log10(range.max / range.min);
  if (decades < 0.7) return linear_ticks(range, most);
  const int every = std::max(1, static_cast<int>(std::ceil(decades / most)));
  const bool label_2_and_5 = 3 * decades <= most;
  std::vector<Tick> ticks;
  for (int exponent = first; exponent <= last; ++exponent) {
    const double power = std::pow(10, exponent);
    const auto label = [&](double value) {
      const bool plain = exponent >= -3 && exponent <= 3 && decades <= 4;
      return plain ? number_label(value, std::max(0, -exponent)) : power_label(value / power, exponent);
    };
    add_between(ticks, range, power, (exponent - first) % every == 0 ? label(power) : "");
    for (int digit = 2; digit <= 9 && every == 1; ++digit) {
      const bool labelled = label_2_and_5 && (digit == 2 || digit == 5);
      add_between(ticks, range, digit * power, labelled ? label(digit * power) : "");
    }
  }
  return ticks;
}

std::vector<Tick> make_ticks(Scale scale, Range range, int most) {
  return scale == Scale::kLog ? log_ticks(range, most) : linear_ticks(range, most);
}

}  // namespace covnoise::plot
