#include "report/search.h"

#include "covnoise/core/error.h"

#include <fmt/format.h>

#include <algorithm>

namespace covnoise::report {
namespace {

namespace fs = std::filesystem;

bool has_figure(const std::vector<fs::path>& files) {
  return std::any_of(files.begin(), files.end(), [](const auto& file) { return file.extension() == ".svg"; });
}

/// Runs and figures.
struct Search {
  Search()
      : runs([this](const fs::path& folder, const std::vector<fs::path>& files) {
          if (has_figure(files)) figure_folders.push_back(folder);
        }) {}

  bool empty() const { return runs.folders().empty() && runs.record_files().empty() && figure_folders.empty(); }

  std::vector<fs::path> figure_folders;
  RunSearch runs;
};

void refuse_empty(const fs::path& root) {
  Search search;
  search.runs.enter(root);
  if (!search.empty()) return;
  const auto& problems = search.runs.problems();
  throw Error(problems.empty()
                  ? fmt::format("nothing to report in {}: no run (config.toml and metrics.jsonl), no records "
                                "of runs (*.jsonl.gz) and no figure (*.svg); covnoise train makes a run",
                                root.string())
                  : problems.front());
}

}  // namespace

Found search(const std::vector<fs::path>& roots) {
  Search search;
  for (const auto& root : roots) {
    std::error_code error;
    const auto status = fs::status(root, error);
    if (!fs::exists(status)) throw Error(fmt::format("there is no folder {}", root.string()));
    if (!fs::is_directory(status))
      throw Error(fmt::format("{} is not a folder; give the folder of a run", root.string()));
    refuse_empty(root);
    search.runs.enter(root);
  }
  Found found;
  found.problems = search.runs.problems();
  found.runs = search.runs.runs(found.problems);
  found.figure_folders = std::move(search.figure_folders);
  std::sort(found.figure_folders.begin(), found.figure_folders.end());
  return found;
}

}  // namespace covnoise::report
