#include "covnoise/plot/internal/study_files.h"
#include "experiment/paper/accuracies.h"
#include "experiment/paper/accuracy_figures.h"
#include "experiment/paper/comparisons.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace covnoise::paper {
namespace {

constexpr const char* kVariantNote =
    "Differences to lb in points of test accuracy, with Welch's 95 % confidence interval where both have at least 2 "
    "seeds; p is that of no difference, adjusted by Holm's method over these lines. |weights| is the norm "
    "of "
    "all parameters after the last epoch: under batch normalisation a larger norm is a lower effective learning rate.";
constexpr const char* kPooledNote =
    "Pooled: the mean of a random-effects model (DerSimonian and Laird, interval of Hartung and Knapp); p is adjusted "
    "by "
    "Holm's method over its lines.";

/// A regime or variant of a row beside the row's large batch.
struct Line {
  const Cell* cell;
  RowDifference difference;
};

/// Every cell except those of the ground.
std::vector<Line> compared_lines(const Context& context) {
  std::vector<Line> lines;
  for (const auto& cell : context.cells) {
    if (cell.regime == kGround) continue;
    lines.push_back({&cell, compare_cells(cell, find_cell(context, cell.row, kGround))});
  }
  std::vector<RowDifference*> family;
  for (auto& line : lines) family.push_back(&line.difference);
  adjust(family);
  return lines;
}

/// The settings of a variant; empty for a regime.
std::string settings_text(const Cell& cell) {
  for (const auto& variant : cell.row.variants) {
    if (variant.name == cell.regime) return fmt::format("{}: {}", variant.regime, fmt::join(variant.settings, ", "));
  }
  return "";
}

/// "Not run: MNIST, F1: lb-kfac, lb-full. CIFAR-10, C1: ..."; empty if the table has everything.
std::string left_out_note(const Context& context) {
  std::string note, last;
  for (const auto& cell : context.cells) {
    if (!cell.not_run()) continue;
    note += cell.row.network == last ? fmt::format(", {}", cell.regime)
                                     : fmt::format("{} {}: {}", last.empty() ? "" : ".", cell.row.network, cell.regime);
    last = cell.row.network;
  }
  return note.empty() ? "" : fmt::format("Not run:{}.", note);
}

std::string norm_text(const MeanStd& norm) { return norm.count == 0 ? "-" : fmt::format("{:.1f}", norm.mean); }

/// Without the cells that have not been run.
Table variant_table(const Context& context, const std::vector<Line>& lines) {
  Table table{"",
              {"network", "regime", "test [%]", "seeds", "difference to lb [95 % interval]", "p", "|weights|",
               "settings", "remarks"},
              {}};
  std::string last;
  for (const auto& cell : context.cells) {
    if (cell.not_run()) continue;
    const auto line = std::find_if(lines.begin(), lines.end(), [&](const Line& one) { return one.cell == &cell; });
    const bool compared = line != lines.end() && line->difference.there();
    const auto a = accuracies_of(cell);
    table.rows.push_back({cell.row.network == last ? "" : cell.row.network, cell.regime, percent_interval_text(a.test),
                          fmt::to_string(a.test.count), compared ? estimate_text(line->difference.difference) : "-",
                          compared ? p_text(line->difference.p) : "-", norm_text(a.weight_norm), settings_text(cell),
                          cell.remarks()});
    last = cell.row.network;
  }
  return table;
}

struct PooledLine {
  std::string regime;
  Pooled pooled;
  double p;
};

/// Over the rows, for each regime that has an interval in at least two of them.
std::vector<PooledLine> pooled_lines(const std::vector<Line>& lines) {
  std::vector<std::string> regimes;
  for (const auto& line : lines) {
    if (std::find(regimes.begin(), regimes.end(), line.cell->regime) == regimes.end())
      regimes.push_back(line.cell->regime);
  }
  std::vector<PooledLine> result;
  std::vector<double> p;
  for (const auto& regime : regimes) {
    std::vector<Estimate> estimates;
    for (const auto& line : lines) {
      if (line.cell->regime == regime) estimates.push_back(line.difference.difference);
    }
    const auto pooled = pool_random_effects(estimates);
    if (pooled.rows < 2) continue;
    result.push_back({regime, pooled, NAN});
    p.push_back(pooled.mean.p_value());
  }
  p = holm_adjusted(p);
  for (std::size_t i = 0; i < result.size(); ++i) result[i].p = p[i];
  return result;
}

Table pooled_table(const std::vector<PooledLine>& lines) {
  Table table{"pooled over rows", {"regime - lb", "difference [95 % interval]", "p", "rows", "tau"}, {}};
  for (const auto& line : lines) {
    table.rows.push_back({line.regime, estimate_text(line.pooled.mean), p_text(line.p),
                          fmt::to_string(line.pooled.rows), fmt::format("{:.2f}", line.pooled.between)});
  }
  return table;
}

/// A panel per row, a line per regime.
std::vector<ComparedRows> panels_of(const Context& context, const std::vector<Line>& lines) {
  std::vector<ComparedRows> panels;
  for (const auto& row : context.item.rows) {
    ComparedRows panel{{row.network + ": regime", kGround, true}, {}, {}};
    for (const auto& line : lines) {
      if (line.cell->row.recipe != row.recipe) continue;
      panel.rows.push_back(line.difference);
      panel.rows.back().row.network = line.cell->regime;
    }
    panels.push_back(std::move(panel));
  }
  return panels;
}

Json line_json(const Line& line) {
  Json json{{"row", line.cell->row.recipe}, {"regime", line.cell->regime}};
  json.update(estimate_json(line.difference.difference));
  json.update({{"seeds", {line.difference.first_seeds, line.difference.second_seeds}}, {"p_holm", line.difference.p}});
  return json;
}

}  // namespace

Result make_variants(const Context& context) {
  const auto lines = compared_lines(context);
  const auto pooled = pooled_lines(lines);
  Result result;
  result.tables = {variant_table(context, lines)};
  result.notes = {kAccuracyNote, kVariantNote};
  if (const auto note = left_out_note(context); !note.empty()) result.notes.push_back(note);
  if (!pooled.empty()) {
    result.tables.push_back(pooled_table(pooled));
    result.notes.emplace_back(kPooledNote);
  }
  result.numbers["cells"] = result.numbers["differences"] = Json::array();
  for (const auto& cell : context.cells) result.numbers["cells"].push_back(cell_json(cell));
  for (const auto& line : lines) result.numbers["differences"].push_back(line_json(line));
  StudyFiles files(context.folder, plot::Formats::kSvg);
  files.add(context.item.name, run_csv(context));
  files.add(context.item.name, forest_figure(context, panels_of(context, lines)));
  adopt(result, context, files.paths());
  return result;
}

}  // namespace covnoise::paper
