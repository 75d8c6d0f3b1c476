#include "covnoise/analysis/frobenius.h"
#include "covnoise/analysis/internal/study_json.h"
#include "covnoise/analysis/variance.h"
#include "covnoise/core/internal/progress.h"
#include "covnoise/datasets/catalog.h"
#include "covnoise/train/internal/split.h"
#include "covnoise/train/schedule.h"
#include "covnoise/train/trainer.h"
#include "experiment/paper/result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace covnoise::paper {
namespace {

/// The run that a figure shows (null if there is none), and what was measured on its networks so far.
template <typename Study>
struct Shown {
  const Trained* run = nullptr;
  std::optional<Study> kept;
};

/// The first run that has its networks, or a record with the measurement.
template <typename Study>
Shown<Study> run_to_show(const Context& context, const char* document, const Json& question) {
  for (const auto& run : context.cells.front().runs) {
    if (!run.there() || run.state == RunState::kDiverged) continue;
    auto kept = kept_answer<Study>(run, document, question);
    if (run.whole() || kept) return {&run, std::move(kept)};
  }
  return {};
}

Result nothing_yet(const Context& context) {
  Result result;
  result.nothing = true;
  result.notes = {fmt::format("Nothing to show yet: {}.", context.cells.front().remark())};
  return result;
}

TrainedModel network_of(const Context& context, const Trained& run) {
  return load_for_analysis(run.folder, known_data_sets({context.options.runner.data_dir}), context.options.runner.say,
                           run.spec.config.run.device);
}

std::string run_note(const Trained& run) {
  return fmt::format("From one run, {} ({}). The paper shows a chart without numbers.", run.spec.name, state_text(run));
}

/// The saved step closest to this fraction of the training.
std::int64_t kept_step(const Trained& run, const Schedule& schedule, double part) {
  const auto steps = kept_steps(run.folder);
  const double wanted = part * static_cast<double>(schedule.total_steps());
  return *std::min_element(steps.begin(), steps.end(), [&](std::int64_t a, std::int64_t b) {
    return std::abs(static_cast<double>(a) - wanted) < std::abs(static_cast<double>(b) - wanted);
  });
}

std::string measured_text(const Measured& value) { return fmt::format("{:.3g} +- {:.2g}", value.value, value.error); }

/// A multiple of `unit`, at least `least`, which the estimates need.
std::int64_t scaled(std::int64_t count, double scale, std::int64_t unit, std::int64_t least) {
  return std::max(least, static_cast<std::int64_t>(static_cast<double>(count) * scale) / unit * unit);
}

Json question(const VarianceOptions& options) {
  return {{"regimes", options.regimes},
          {"samples", options.samples},
          {"small_batch", options.small_batch},
          {"large_batch", options.large_batch},
          {"seed", options.seed}};
}

Json question(const FrobeniusOptions& options) {
  return {{"examples", options.examples}, {"batches", options.batches}, {"seed", options.seed}};
}

VarianceStudy variance_of(const Context& context, const Shown<VarianceStudy>& shown, const VarianceOptions& options) {
  const auto& [run, kept] = shown;
  if (run->records_only) return *kept;
  auto trained = network_of(context, *run);
  const Split split = make_split(trained.source, trained.config);
  const auto step = kept_step(*run, Schedule(trained.config, split.train.size()), context.item.effort.snapshot);
  if (kept && kept->step == step) return *kept;
  load_step(trained, run->folder, step, context.options.runner.say);
  ProgressBar bar(1000, "gradient variance", context.options.runner.progress_bar);
  auto study = study_variance(trained.config, *trained.model, split.train, options, [&](auto done, auto total) {
    bar.update(done * 1000 / total, fmt::format("{} of {} examples", done, total));
    stop_if_asked(context.options);
  });
  bar.clear();
  study.step = trained.step;
  keep_answer(*run, kGradientVariance, question(options), study);
  return study;
}

/// Point by point: an interruption loses at most one.
FrobeniusStudy frobenius_of(const Context& context, const Shown<FrobeniusStudy>& shown,
                            const FrobeniusOptions& options) {
  const auto& [run, kept] = shown;
  if (run->records_only) return *kept;
  const auto& config = run->spec.config;
  FrobeniusStudy study{options, config.model, config.data.name, config.regime, {}};
  const auto known = kept ? kept->points : study.points;
  const auto steps = kept_steps(run->folder);
  std::optional<TrainedModel> trained;
  std::optional<Split> split;
  ProgressBar bar(static_cast<std::int64_t>(steps.size()), "Frobenius norms", context.options.runner.progress_bar);
  for (const auto step : steps) {
    stop_if_asked(context.options);
    const auto point = std::find_if(known.begin(), known.end(), [&](const auto& p) { return p.step == step; });
    if (point != known.end()) {
      study.points.push_back(*point);
      continue;
    }
    if (!trained) {
      trained = network_of(context, *run);
      split = make_split(trained->source, trained->config);
    }
    load_step(*trained, run->folder, step, context.options.runner.say);
    study.points.push_back(frobenius_point(*trained->model, split->train, options));
    study.points.back().step = step;
    keep_answer(*run, kFrobeniusNorms, question(options), study);
    bar.update(static_cast<std::int64_t>(study.points.size()));
  }
  bar.clear();
  return study;
}

}  // namespace

Result make_fig2(const Context& context) {
  const Effort& effort = context.item.effort;
  VarianceOptions options;
  options.samples = scaled(effort.samples, context.options.scale, 8, 16);
  options.small_batch = effort.small_batch;
  options.large_batch = effort.large_batch;
  if (context.options.scale < 1) {
    options.large_batch = 2 * effort.small_batch;
    options.regimes = {"lb", "lb-diag"};
  }
  const auto shown = run_to_show<VarianceStudy>(context, kGradientVariance, question(options));
  if (shown.run == nullptr) return nothing_yet(context);
  const auto study = variance_of(context, shown, options);
  Result result;
  Table table{"Mean over all parameters.", {"regime", "batch", "variance", "ratio to sb"}, {}};
  for (const auto& regime : study.regimes) {
    const auto& all = regime.layers.back();
    table.rows.push_back(
        {regime.regime, fmt::to_string(regime.batch), measured_text(all.variance), measured_text(all.over_sb)});
    result.numbers["regimes"].push_back(
        {{"regime", regime.regime}, {"variance", all.variance.value}, {"over_sb", all.over_sb.value}});
  }
  result.tables = {table};
  result.notes = {run_note(*shown.run), fmt::format("The network after {} steps.", study.step)};
  adopt(result, context, save_study(study, context.folder, plot::Formats::kSvg), {"variance"});
  return result;
}

Result make_fig5a(const Context& context) {
  FrobeniusOptions options;
  options.examples = scaled(context.item.effort.examples, context.options.scale, 1, 32);
  options.batches = scaled(context.item.effort.batches, context.options.scale, 1, 2);
  const auto shown = run_to_show<FrobeniusStudy>(context, kFrobeniusNorms, question(options));
  if (shown.run == nullptr) return nothing_yet(context);
  const auto study = frobenius_of(context, shown, options);
  Result result;
  Table table{"Unbiased estimates.", {"step", "|F|", "|diag F|", "ratio"}, {}};
  for (const auto& point : study.points) {
    table.rows.push_back({fmt::to_string(point.step), measured_text(point.full_unbiased),
                          measured_text(point.diagonal_unbiased),
                          fmt::format("{:.3g}", point.full_unbiased.value / point.diagonal_unbiased.value)});
    result.numbers["points"].push_back(
        {{"step", point.step}, {"full", point.full_unbiased.value}, {"diagonal", point.diagonal_unbiased.value}});
  }
  result.tables = {table};
  result.notes = {run_note(*shown.run),
                  fmt::format("{} batches of {} examples, running statistics.", options.batches, options.examples)};
  adopt(result, context, save_study(study, context.folder, plot::Formats::kSvg), {"frobenius"});
  return result;
}

}  // namespace covnoise::paper
