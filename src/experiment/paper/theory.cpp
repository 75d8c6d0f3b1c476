#include "covnoise/plot/internal/study_files.h"
#include "covnoise/theory/internal/quadratic_figures.h"
#include "covnoise/theory/quadratic_study.h"
#include "covnoise/theory/regression.h"
#include "experiment/paper/result.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

namespace covnoise::paper {
namespace {

std::int64_t reduced(std::int64_t count, const Context& context, std::int64_t least) {
  return std::max(least, static_cast<std::int64_t>(static_cast<double>(count) * context.options.scale));
}

Table steps_table(const theory::QuadraticStudy& study) {
  Table table{"", {"C", "Tr C'AC", "error", "steps, exact", "the paper's formula", "the theorem's bound"}, {}};
  for (const auto& r : study.results) {
    if (r.trace == 0) continue;
    for (std::size_t i = 0; i < study.errors.size(); ++i) {
      const double error = study.errors[i];
      table.rows.push_back({theory::noise_label(r.name), number_text(r.curvature, 3), fmt::format("{:g}", error),
                            r.reached[i] ? fmt::to_string(*r.reached[i]) : fmt::format("> {}", study.options.horizon),
                            number_text(r.curvature / error, 0),
                            r.bound ? number_text(r.bound->steps_to_reach(error), 0) : "-"});
    }
  }
  return table;
}

std::string ratio_note(const theory::QuadraticStudy& study) {
  std::string text = fmt::format(
      "Ratio of sqrt(A) to sqrt(diag A): {:.2f} by the paper's formula; {:.2f} +- {:.2f} (standard error) in one step "
      "from the minimum",
      study.ratio.frobenius, study.ratio.one_step, study.ratio.one_step_error);
  for (std::size_t i = 0; i < study.errors.size(); ++i) {
    if (study.ratio.steps[i])
      text += fmt::format(", {1:.2f} in steps to reach {0:g}", study.errors[i], *study.ratio.steps[i]);
  }
  return text + ". The formula compares upper bounds (docs/theory.md).";
}

}  // namespace

Result make_table1(const Context& context) {
  theory::QuadraticOptions options;
  options.trajectories = reduced(context.item.effort.trajectories, context, 64);
  options.horizon = reduced(options.horizon, context, 20000);
  const auto study = theory::study_quadratic(options);
  Result result;
  result.tables = {steps_table(study)};
  result.notes = {
      fmt::format("Dimension {}, condition {:g}, the theorem's decaying steps.", options.dimension, options.condition),
      ratio_note(study)};
  for (const auto& r : study.results) {
    Json steps = Json::array();
    for (const auto& reached : r.reached) steps.push_back(reached ? Json(*reached) : Json());
    result.numbers["noise"].push_back(
        {{"name", r.name}, {"trace", r.trace}, {"curvature", r.curvature}, {"steps", steps}});
  }
  result.numbers["errors"] = study.errors;
  CsvTable csv({"noise", "error", "steps", "formula"});
  for (const auto& r : study.results) {
    for (std::size_t i = 0; i < study.errors.size(); ++i) {
      csv.add(r.name, study.errors[i], r.reached[i] ? fmt::to_string(*r.reached[i]) : "",
              r.curvature / study.errors[i]);
    }
  }
  StudyFiles files(context.folder, plot::Formats::kSvg);
  files.add("table1", csv);
  files.add("table1", theory::loss_figure(study));
  adopt(result, context, files.paths());
  return result;
}

Result make_fig1(const Context& context) {
  theory::RegressionOptions options;
  options.points = reduced(options.points, context, 50);
  const auto study = theory::study_regression(options);
  Result result;
  Table table{"", {"one step", "mean loss", "error of covariance [%]"}, {}};
  const auto& sgd = study.clouds.front().covariance;
  for (const auto& cloud : study.clouds) {
    const double loss = theory::mean_loss(study, cloud);
    const double off = ((cloud.covariance - sgd).norm() / sgd.norm()).item<double>();
    table.rows.push_back({cloud.name, number_text(loss, 5), number_text(100 * off, 1)});
    result.numbers["clouds"].push_back({{"name", cloud.name}, {"mean_loss", loss}, {"covariance_off", off}});
  }
  result.tables = {table};
  result.notes = {
      "The start was chosen to show the effect of the paper's figure (docs/theory.md). The error of the covariance is "
      "relative to SGD's, in the Frobenius norm."};
  adopt(result, context, theory::save_study(study, context.folder, plot::Formats::kSvg), {"regression", "points"});
  return result;
}

Result make_fig4(const Context& context) {
  theory::QuadraticOptions options;  // only its plane is used
  options.trajectories = 16;
  options.iterations = 10;
  options.horizon = 100;
  const auto study = theory::study_quadratic(options);
  Result result;
  Table table{"", {"C", "mean loss after 500 steps", "stationary mean loss"}, {}};
  CsvTable csv({"noise", "step", "theta_1", "theta_2", "exact_mean_loss"});
  for (const auto& run : study.plane.runs) {
    table.rows.push_back(
        {theory::noise_label(run.name), number_text(run.exact.back(), 5), number_text(run.stationary, 5)});
    result.numbers["runs"].push_back({{"noise", run.name}, {"loss", run.exact.back()}, {"stationary", run.stationary}});
    for (std::int64_t k = 0; k < run.path.size(0); ++k) {
      csv.add(run.name, k, run.path[k][0].item<double>(), run.path[k][1].item<double>(),
              run.exact[static_cast<std::size_t>(k)]);
    }
  }
  result.tables = {table};
  result.notes = {
      "Learning rate 0.1, 500 steps, as in the paper; the paper does not print its matrix. Losses are exact means."};
  StudyFiles files(context.folder, plot::Formats::kSvg);
  files.add("fig4", csv);
  files.add("fig4", theory::plane_figure(study));
  adopt(result, context, files.paths());
  return result;
}

}  // namespace covnoise::paper
