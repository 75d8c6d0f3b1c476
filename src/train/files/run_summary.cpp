#include "covnoise/train/run_summary.h"

#include "covnoise/train/internal/metrics.h"
#include "covnoise/train/internal/run_folder.h"

#include <fmt/format.h>

#include <algorithm>

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

}  // namespace

RunSummary summarize_run(const fs::path& path) {
  RunSummary summary;
  summary.path = path;
  summary.config = read_config(RunFolder{path}.config());
  for (const auto& record : read_metrics(path)) {
    summary.diverged = record.value("kind", "") == "diverged";
    if (record.value("kind", "") != "epoch") continue;
    summary.epoch = record.value("epoch", std::int64_t{0});
    summary.step = record.value("step", std::int64_t{0});
    summary.test_accuracy = number(record, "test_accuracy");
    summary.train_accuracy = number(record, "train_accuracy");
    summary.val_accuracy = number(record, "val_accuracy");
    summary.train_eval_accuracy = number(record, "train_eval_accuracy");
    summary.seconds = number(record, "seconds").value_or(0);
  }
  return summary;
}

std::vector<RunSummary> find_runs(const fs::path& root) {
  std::vector<fs::path> paths;
  const auto consider = [&](const fs::path& path) {
    if (fs::exists(RunFolder{path}.config())) paths.push_back(path);
  };
  consider(root);
  std::error_code ignored;
  for (fs::recursive_directory_iterator it(root, ignored), end; it != end; it.increment(ignored)) {
    if (it->is_directory(ignored)) consider(it->path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<RunSummary> runs;
  runs.reserve(paths.size());
  for (const auto& path : paths) runs.push_back(summarize_run(path));
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
  return table;
}

}  // namespace covnoise
