#include "covnoise/train/run_summary.h"

#include "covnoise/core/error.h"
#include "covnoise/train/internal/metrics.h"
#include "covnoise/train/internal/run_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace covnoise {
namespace {

namespace fs = std::filesystem;

std::optional<double> number(const nlohmann::ordered_json& record, const char* key) {
  const auto found = record.find(key);
  if (found == record.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::string percent(const std::optional<double>& value) {
  return value ? fmt::format("{:.2f} %", 100 * *value) : std::string("-");
}

/// RunSummary::loss_jump, from the training losses by epoch.
std::optional<double> loss_jump(const Config& config, const std::vector<double>& losses) {
  const double noisy = config.noise.structure == "none" ? 0 : config.noise.stop_after * config.train.epochs;
  const auto last = static_cast<std::size_t>(noisy);  // epochs that had noise throughout
  if (last < 1 || last + 2 > losses.size()) return std::nullopt;
  const double jump = std::max(losses[last], losses[last + 1]) / losses[last - 1];
  return std::isfinite(jump) && jump > 0 ? std::optional(jump) : std::nullopt;
}

}  // namespace

RunSummary summarize(const StoredRun& run) {
  RunSummary summary;
  summary.path = run.path();
  summary.config = run.config();
  const auto records = run.metrics();
  summary.warnings = warnings_of(records);
  std::vector<double> losses;
  for (const auto& record : records) {
    summary.diverged = record.value("kind", "") == "diverged";
    if (warns_about(record, kAboutLoss)) summary.loss_above_guessing = true;
    if (record.value("kind", "") != "epoch") continue;
    summary.epoch = record.value("epoch", std::int64_t{0});
    summary.step = record.value("step", std::int64_t{0});
    summary.test_accuracy = number(record, "test_accuracy");
    summary.train_accuracy = number(record, "train_accuracy");
    summary.val_accuracy = number(record, "val_accuracy");
    summary.train_eval_accuracy = number(record, "train_eval_accuracy");
    summary.weight_norm = number(record, "weight_norm");
    summary.seconds = number(record, "seconds").value_or(0);
    losses.push_back(number(record, "train_loss").value_or(NAN));
  }
  summary.loss_jump = loss_jump(summary.config, losses);
  return summary;
}

RunSummary summarize_run(const fs::path& path) { return summarize(StoredRun(path)); }

std::vector<RunSummary> find_runs(const fs::path& root, const std::function<void(const std::string&)>& warn) {
  RunSearch search;
  search.enter(root);
  auto problems = search.problems();
  std::vector<RunSummary> runs;
  for (const auto& run : search.runs(problems)) {
    try {
      runs.push_back(summarize(run));
    } catch (const Error& error) {
      problems.emplace_back(error.what());
    }
  }
  for (const auto& problem : problems) warn(problem);
  return runs;
}

std::string runs_table(const std::vector<RunSummary>& runs) {
  std::size_t width = 3;
  for (const auto& run : runs) width = std::max(width, run.path.string().size());
  std::string table = fmt::format("{:<{}}  {:<16} {:>6} {:>9} {:>9} {:>9} {:>8}\n", "run", width, "regime", "batch",
                                  "epochs", "train", "test", "seconds");
  for (const auto& run : runs) {
    table +=
        fmt::format("{:<{}}  {:<16} {:>6} {:>9} {:>9} {:>9} {:>8.1f}\n", run.path.string(), width, run.config.regime,
                    run.config.train.batch, fmt::format("{}/{}", run.epoch, run.config.train.epochs),
                    percent(run.train_accuracy), percent(run.test_accuracy), run.seconds);
  }
  std::string warnings;
  for (const auto& run : runs) {
    for (const auto& warning : run.warnings) warnings += fmt::format("{}: {}\n", run.path.string(), warning);
  }
  return warnings.empty() ? table : table + "\n" + warnings;
}

}  // namespace covnoise
