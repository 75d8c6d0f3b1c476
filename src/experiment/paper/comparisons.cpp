#include "experiment/paper/comparisons.h"

#include "experiment/paper/accuracies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace covnoise::paper {
namespace {

MeanStd in_points(MeanStd share) { return {100 * share.mean, 100 * share.deviation, share.count}; }

ComparedRows compare(const Context& context, const Comparison& comparison) {
  ComparedRows result{comparison, {}, {}};
  std::vector<Estimate> estimates;
  for (const auto& row : context.item.rows) {
    result.rows.push_back(
        compare_cells(find_cell(context, row, comparison.first), find_cell(context, row, comparison.second)));
    estimates.push_back(result.rows.back().difference);
  }
  std::vector<RowDifference*> family;
  for (auto& row : result.rows) family.push_back(&row);
  adjust(family);
  result.pooled = pool_random_effects(estimates);
  return result;
}

std::string signed_text(double value) { return std::isfinite(value) ? fmt::format("{:+.2f}", value) : "-"; }

}  // namespace

const char* const kComparisonNote =
    "Differences of test accuracy in points, with Welch's 95 % confidence interval where both regimes have at least 2 "
    "seeds. p is that of no difference, the last p that of the paper's difference, whose own error is not known; both "
    "are adjusted by Holm's method over the rows of a comparison; that of the pooled difference is of a single test. "
    "Pooled: the mean of a random-effects model "
    "(DerSimonian and Laird, interval of Hartung and Knapp); tau is the standard deviation of the true differences "
    "between rows.";

std::string RowDifference::seeds_text() const { return fmt::format("{}, {}", first_seeds, second_seeds); }

std::string ComparedRows::name() const { return fmt::format("{} - {}", comparison.first, comparison.second); }

RowDifference compare_cells(const Cell& first, const Cell& second) {
  const auto a = in_points(accuracies_of(first).test), b = in_points(accuracies_of(second).test);
  RowDifference result{first.row, a.count, b.count, welch_difference(a, b)};
  result.paper = first.row.number(first.regime) - first.row.number(second.regime);
  result.p = result.difference.p_value();
  result.paper_p = result.difference.p_value(result.paper);
  return result;
}

void adjust(const std::vector<RowDifference*>& compared) {
  for (double RowDifference::*p : {&RowDifference::p, &RowDifference::paper_p}) {
    std::vector<double> values;
    for (const auto* row : compared) values.push_back(row->*p);
    values = holm_adjusted(values);
    for (std::size_t i = 0; i < compared.size(); ++i) compared[i]->*p = values[i];
  }
}

std::string estimate_text(const Estimate& estimate) {
  if (!estimate.has_interval()) return signed_text(estimate.value);
  return fmt::format("{:+.2f} [{:+.2f}, {:+.2f}]", estimate.value, estimate.low(), estimate.high());
}

std::string p_text(double p) {
  if (std::isnan(p)) return "-";
  return p < 0.001 ? "< 0.001" : fmt::format("{:.3f}", p);
}

Json estimate_json(const Estimate& estimate) {
  return {{"points", estimate.value},
          {"low", estimate.low()},
          {"high", estimate.high()},
          {"standard_error", estimate.standard_error},
          {"degrees_of_freedom", estimate.degrees}};
}

std::vector<ComparedRows> compare_rows(const Context& context) {
  std::vector<ComparedRows> all;
  for (const auto& comparison : context.item.comparisons) all.push_back(compare(context, comparison));
  return all;
}

Table comparison_table(const ComparedRows& compared) {
  Table table{compared.name(), {"network", "difference [95 % interval]", "p", "seeds", "paper", "p of paper's"}, {}};
  for (const auto& row : compared.rows) {
    table.rows.push_back({row.row.network, row.there() ? estimate_text(row.difference) : "-", p_text(row.p),
                          row.seeds_text(), signed_text(row.paper), p_text(row.paper_p)});
  }
  const auto& pooled = compared.pooled;
  if (pooled.rows > 1) {
    table.rows.push_back({fmt::format("pooled, {} rows, tau {:.2f}", pooled.rows, pooled.between),
                          estimate_text(pooled.mean), p_text(pooled.mean.p_value()), "", "", ""});
  }
  return table;
}

std::string cifar_note(const std::vector<ComparedRows>& comparisons) {
  std::vector<std::string> parts;
  for (const auto& compared : comparisons) {
    std::vector<Estimate> estimates;
    for (const auto& row : compared.rows)
      if (row.row.recipe.rfind("cifar", 0) == 0) estimates.push_back(row.difference);
    const auto pooled = pool_random_effects(estimates);
    if (pooled.rows > 1 && pooled.rows + 1 < compared.pooled.rows)
      parts.push_back(fmt::format("{} {} ({} rows)", compared.name(), estimate_text(pooled.mean), pooled.rows));
  }
  return parts.empty() ? "" : fmt::format("Pooled over the rows on CIFAR alone: {}.", fmt::join(parts, "; "));
}

Json comparison_json(const ComparedRows& compared) {
  Json rows = Json::array();
  for (const auto& row : compared.rows) {
    Json json = estimate_json(row.difference);
    json.update({{"row", row.row.recipe},
                 {"seeds", {row.first_seeds, row.second_seeds}},
                 {"p_holm", row.p},
                 {"paper_points", row.paper},
                 {"paper_p_holm", row.paper_p}});
    rows.push_back(std::move(json));
  }
  Json pooled = estimate_json(compared.pooled.mean);
  pooled.update({{"rows", compared.pooled.rows}, {"tau", compared.pooled.between}});
  return {
      {"first", compared.comparison.first}, {"second", compared.comparison.second}, {"rows", rows}, {"pooled", pooled}};
}

}  // namespace covnoise::paper
