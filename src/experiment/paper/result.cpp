#include "experiment/paper/result.h"

#include "covnoise/core/internal/file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace covnoise::paper {
void stop_if_asked(const Options& options) {
  const int signal = options.runner.stop_signal();
  if (signal != 0) throw Error("interrupted; repeat the command to resume", 128 + signal);
}

void adopt(Result& result, const Context& context, const std::vector<std::filesystem::path>& paths,
           const std::vector<std::string>& stems) {
  for (const auto& path : paths) {
    const bool ours = std::find(stems.begin(), stems.end(), path.stem()) != stems.end() && path.extension() != ".json";
    const auto name = ours ? path.parent_path() / (context.item.name + path.extension().string()) : path;
    if (ours) rename_synced(path, name);
    result.paths.push_back(name);
    if (name.extension() == ".svg") result.figures.push_back(name.filename().string());
  }
}

void keep_document(const Trained& run, const char* name, const Json& json) {
  write_file_synced(run.folder / (std::string(name) + ".json"), json.dump() + "\n");
}

std::string number_text(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "-";
}

}  // namespace covnoise::paper
