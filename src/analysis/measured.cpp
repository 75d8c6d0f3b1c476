#include "covnoise/analysis/measured.h"
#include "covnoise/analysis/internal/study_json.h"

#include "covnoise/core/internal/mean_std.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace covnoise {

Measured mean_of(const std::vector<double>& values) {
  const MeanStd spread = mean_std_of(values);
  return {spread.mean, spread.deviation / std::sqrt(static_cast<double>(spread.count))};
}

Measured ratio(const Measured& a, const Measured& b) {
  const double value = a.value / b.value;
  return {value, std::abs(value) * std::hypot(a.error / a.value, b.error / b.value)};
}

Measured root(const Measured& a) {
  const double value = std::sqrt(a.value);
  return {value, a.error / (2 * value)};
}

void to_json(nlohmann::ordered_json& json, const Measured& measured) {
  json = {{"value", measured.value}, {"error", measured.error}};
}

void from_json(const nlohmann::ordered_json& json, Measured& measured) {
  const auto number = [&](const char* key) { return json.at(key).is_null() ? NAN : json.at(key).get<double>(); };
  measured = {number("value"), number("error")};
}

}  // namespace covnoise
