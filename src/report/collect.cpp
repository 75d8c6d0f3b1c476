#include "covnoise/report/internal/collect.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/train/internal/run_folder.h"
#include "report/runs.h"
#include "report/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace covnoise::report {
namespace {

namespace fs = std::filesystem;

/// The text of the first title element; covnoise's own figures have one.
std::string title_of(const std::string& svg) {
  const std::size_t begin = svg.find("<title>"), end = svg.find("</title>");
  if (begin == std::string::npos || end == std::string::npos || end < begin) return "";
  std::string title = svg.substr(begin + 7, end - begin - 7);
  static constexpr std::pair<const char*, const char*> kEntities[] = {
      {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&amp;", "&"}};
  for (const auto& [entity, character] : kEntities) {
    for (std::size_t at = 0; (at = title.find(entity, at)) != std::string::npos; ++at) {
      title.replace(at, std::strlen(entity), character);
    }
  }
  return title;
}

DataFile read_data_file(const fs::path& path) {
  DataFile file{path.filename().string(), fs::file_size(path), {}};
  if (file.bytes <= kLargestFile) file.text = read_file(path);
  return file;
}

FigureFolder read_figures(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  FigureFolder result;
  result.path = folder;
  for (const auto& path : paths) {
    const std::string name = path.filename().string(), type = path.extension().string();
    if (type == ".svg") {
      const std::string svg = read_file(path);
      result.figures.push_back({name, title_of(svg), svg});
    }
    // The table of a run is already in the report.
    const bool data = (type == ".csv" || type == ".json") && path != RunFolder{folder}.metrics_csv();
    if (data) result.files.push_back(read_data_file(path));
  }
  return result;
}

}  // namespace

Report collect(const std::vector<fs::path>& folders) {
  const Found found = search(folders);
  Report report;
  for (const auto& folder : folders) report.sources.push_back(folder.string());
  report.problems = found.problems;
  for (const auto& run : found.runs) {
    attempt(report.problems, [&] { report.runs.push_back(read_run(run)); });
  }
  for (const auto& path : found.figure_folders) {
    attempt(report.problems, [&] { report.folders.push_back(read_figures(path)); });
  }
  if (report.runs.empty() && report.folders.empty()) throw Error(report.problems.front());
  report.every = thin_steps(report.runs);
  report.groups = group_runs(report.runs);
  return report;
}

}  // namespace covnoise::report
