#include "report/search.h"

#include "covnoise/core/error.h"
#include "covnoise/train/internal/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace covnoise::report {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 8;

bool is_run(const fs::path& folder) {
  const RunFolder run{folder};
  return fs::is_regular_file(run.config()) && fs::is_regular_file(run.metrics());
}

class Search {
 public:
  Found found;

  /// Links are followed; a folder that was seen is not entered again, so they may go in circles.
  void enter(const fs::path& folder, int depth) {
    std::error_code error;
    if (!seen_.insert(fs::weakly_canonical(folder, error)).second) return;
    std::vector<fs::path> below;
    bool figures = false;
    fs::directory_iterator entry(folder, error);
    if (error) found.problems.push_back(fmt::format("cannot read {}: {}", folder.string(), error.message()));
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      std::error_code ignored;  // of links to nothing
      if (entry->is_directory(ignored)) below.push_back(entry->path());
      figures = figures || (entry->path().extension() == ".svg" && entry->is_regular_file(ignored));
    }
    if (is_run(folder)) found.runs.push_back(folder);
    if (figures) found.figure_folders.push_back(folder);
    if (depth == kDeepest) return;
    std::sort(below.begin(), below.end());
    for (const auto& path : below) {
      const std::string name = path.filename().string();
      if (name.front() != '.' && name != "checkpoints") enter(path, depth + 1);
    }
  }

 private:
  std::set<fs::path> seen_;
};

}  // namespace

Found search(const std::vector<fs::path>& roots) {
  Search search;
  for (const auto& root : roots) {
    std::error_code error;
    const auto status = fs::status(root, error);
    if (!fs::exists(status)) throw Error(fmt::format("there is no folder {}", root.string()));
    if (!fs::is_directory(status)) throw Error(fmt::format("{} is no folder; give that of a run", root.string()));
    Search alone;
    alone.enter(root, 0);
    if (alone.found.runs.empty() && alone.found.figure_folders.empty()) {
      const auto& problems = alone.found.problems;
      throw Error(problems.empty() ? fmt::format("nothing to report in {}: no run (config.toml and metrics.jsonl) and "
                                                 "no figure (*.svg); covnoise train makes a run",
                                                 root.string())
                                   : problems.front());
    }
    search.enter(root, 0);
  }
  std::sort(search.found.runs.begin(), search.found.runs.end());
  std::sort(search.found.figure_folders.begin(), search.found.figure_folders.end());
  return search.found;
}

}  // namespace covnoise::report
