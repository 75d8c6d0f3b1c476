#include "covnoise/train/internal/run_search.h"

#include "covnoise/train/internal/run_folder.h"
#include "covnoise/train/internal/run_records.h"

#include <fmt/format.h>

#include <algorithm>

namespace covnoise {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 8;

bool is_run(const fs::path& folder) {
  const RunFolder run{folder};
  return fs::is_regular_file(run.config()) && fs::is_regular_file(run.metrics());
}

bool may_hold_runs(const fs::path& folder) {
  const std::string name = folder.filename().string();
  return name.front() != '.' && name != "checkpoints";
}

/// All folders of trained runs, also repetitions of one run; of the records the first of each other run.
std::vector<StoredRun> each_once(std::vector<StoredRun> runs) {
  std::stable_partition(runs.begin(), runs.end(), [](const StoredRun& run) { return !run.is_record(); });
  std::set<std::string> known;
  std::vector<StoredRun> kept;
  for (auto& run : runs) {
    const bool is_new = known.insert(run.identity()).second;
    if (is_new || !run.is_record()) kept.push_back(std::move(run));
  }
  std::sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) { return a.path() < b.path(); });
  return kept;
}

}  // namespace

void RunSearch::enter(const fs::path& folder, int depth) {
  std::error_code error;
  if (!seen_.insert(fs::weakly_canonical(folder, error)).second) return;
  std::vector<fs::path> below, files;
  fs::directory_iterator entry(folder, error);
  if (error) problems_.push_back(fmt::format("cannot read {}: {}", folder.string(), error.message()));
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code ignored;  // of links to nothing
    if (entry->is_directory(ignored) && may_hold_runs(entry->path())) below.push_back(entry->path());
    if (entry->is_regular_file(ignored)) files.push_back(entry->path());
  }
  std::sort(below.begin(), below.end());
  std::sort(files.begin(), files.end());
  visit_(folder, files);
  if (is_run(folder)) folders_.push_back(folder);
  std::copy_if(files.begin(), files.end(), std::back_inserter(record_files_), is_record_file);
  if (depth == kDeepest) return;
  for (const auto& path : below) enter(path, depth + 1);
}

std::vector<StoredRun> RunSearch::runs(std::vector<std::string>& problems) const {
  std::vector<StoredRun> runs;
  for (const auto& file : record_files_) {
    attempt(problems, [&] {
      for (auto& run : read_records(file)) runs.push_back(std::move(run));
    });
  }
  for (const auto& folder : folders_) attempt(problems, [&] { runs.emplace_back(folder); });
  return each_once(std::move(runs));
}

}  // namespace covnoise
