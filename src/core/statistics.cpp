#include "covnoise/core/internal/statistics.h"

#include "covnoise/core/internal/student_t.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace covnoise {
namespace {

/// sum w f(estimate) over the estimates.
template <class Function>
double weighted_sum(const std::vector<Estimate>& estimates, const std::vector<double>& weights, Function f) {
  double sum = 0;
  for (std::size_t i = 0; i < estimates.size(); ++i) sum += weights[i] * f(estimates[i].value);
  return sum;
}

struct WeightedMean {
  double mean, weight;  ///< weight: sum of the weights
  double scatter;       ///< weighted sum of squared distances from the mean
};

/// With the weights 1 / (s^2 + between^2).
WeightedMean weighted_mean(const std::vector<Estimate>& estimates, double between) {
  std::vector<double> weights;
  for (const auto& e : estimates) weights.push_back(1 / (e.standard_error * e.standard_error + between * between));
  const double weight = std::accumulate(weights.begin(), weights.end(), 0.0);
  const double mean = weighted_sum(estimates, weights, [](double y) { return y; }) / weight;
  return {mean, weight, weighted_sum(estimates, weights, [&](double y) { return (y - mean) * (y - mean); })};
}

/// DerSimonian and Laird's tau.
double between_rows(const std::vector<Estimate>& estimates) {
  const auto common = weighted_mean(estimates, 0);
  double squares = 0;
  for (const auto& e : estimates) squares += std::pow(e.standard_error, -4);
  const double excess = common.scatter - static_cast<double>(estimates.size() - 1);
  return std::sqrt(std::max(0.0, excess / (common.weight - squares / common.weight)));
}

}  // namespace

double half_width(const MeanStd& sample) {
  if (sample.count < 2) return NAN;
  const auto n = static_cast<double>(sample.count);
  return student_t_critical(kConfidence, n - 1) * sample.deviation / std::sqrt(n);
}

std::string percent_interval_text(const MeanStd& sample) {
  if (sample.count == 0 || std::isnan(sample.mean)) return "-";
  return fmt::format("{:.2f}", 100 * sample.mean) +
         (sample.count > 1 ? fmt::format(" +- {:.2f}", 100 * half_width(sample)) : "");
}

double Estimate::low() const { return value - (high() - value); }

double Estimate::high() const {
  if (!has_interval()) return NAN;
  return standard_error == 0 ? value : value + student_t_critical(kConfidence, degrees) * standard_error;
}

double Estimate::p_value(double hypothesis) const {
  if (!has_interval() || std::isnan(hypothesis)) return NAN;
  if (standard_error == 0) return value == hypothesis ? 1 : 0;
  return student_t_two_sided((value - hypothesis) / standard_error, degrees);
}

Estimate welch_difference(const MeanStd& a, const MeanStd& b) {
  Estimate difference{a.mean - b.mean, NAN, NAN};
  if (a.count < 2 || b.count < 2) return difference;
  const auto n_a = static_cast<double>(a.count), n_b = static_cast<double>(b.count);
  const double v_a = a.deviation * a.deviation / n_a, v_b = b.deviation * b.deviation / n_b;
  difference.standard_error = std::sqrt(v_a + v_b);
  difference.degrees = (v_a + v_b) * (v_a + v_b) / (v_a * v_a / (n_a - 1) + v_b * v_b / (n_b - 1));
  return difference;
}

std::vector<double> holm_adjusted(const std::vector<double>& p_values) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < p_values.size(); ++i) {
    if (!std::isnan(p_values[i])) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) { return p_values[i] < p_values[j]; });
  std::vector<double> adjusted(p_values.size(), NAN);
  double largest = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    largest = std::max(largest, static_cast<double>(order.size() - rank) * p_values[order[rank]]);
    adjusted[order[rank]] = std::min(1.0, largest);
  }
  return adjusted;
}

Pooled pool_random_effects(const std::vector<Estimate>& estimates) {
  std::vector<Estimate> usable;
  std::copy_if(estimates.begin(), estimates.end(), std::back_inserter(usable),
               [](const Estimate& e) { return e.has_interval() && e.standard_error > 0; });
  Pooled pooled;
  pooled.rows = static_cast<int>(usable.size());
  if (usable.size() < 2) return pooled;
  pooled.between = between_rows(usable);
  const auto mean = weighted_mean(usable, pooled.between);
  const auto degrees = static_cast<double>(usable.size() - 1);
  pooled.mean = {mean.mean, std::sqrt(std::max(1.0, mean.scatter / degrees) / mean.weight), degrees};
  return pooled;
}

}  // namespace covnoise
