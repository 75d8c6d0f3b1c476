#include "covnoise/core/error.h"
#include "covnoise/data/dataset.h"
#include "covnoise/datasets/catalog.h"
#include "covnoise/datasets/glyphs.h"
#include "covnoise/datasets/textures.h"
#include "datasets/file_set.h"
#include "datasets/formats/folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>

namespace covnoise {
namespace {

constexpr std::string_view kFolder = "folder:";

/// A data set that the program generates.
struct EmbeddedSet {
  DataSummary summary;
  std::function<DataSource()> make;
};

const std::vector<EmbeddedSet>& embedded_sets() {
  static const std::vector<EmbeddedSet> sets{
      {{"glyphs", 1, 28, 28, 10, 10000, 4000, "embedded"}, make_glyphs},
      {{"textures", 3, 32, 32, 10, 10000, 4000, "embedded"}, make_textures},
  };
  return sets;
}

bool is_folder(const std::string& name) { return name.compare(0, kFolder.size(), kFolder) == 0; }

const FileSet* file_set(const std::string& name) {
  for (const FileSet& set : file_sets()) {
    if (set.summary.name == name) return &set;
  }
  return nullptr;
}

const EmbeddedSet* embedded_set(const std::string& name) {
  for (const EmbeddedSet& set : embedded_sets()) {
    if (set.summary.name == name) return &set;
  }
  return nullptr;
}

[[noreturn]] void refuse_name(const std::string& name) {
  throw Error(fmt::format("unknown data set '{}'; known: {}, folder:PATH", name, fmt::join(data_names(), ", ")));
}

DataSource load_folder(const DataRequest& request) {
  return read_folder(request.name.substr(kFolder.size()), {{request.resize, request.crop}, request.memory});
}

DataSource load(const DataRequest& request, const DataOptions& options) {
  const std::string& name = request.name;
  if (is_folder(name)) return load_folder(request);
  require(request.resize == 0 && request.crop == 0,
          fmt::format("only the images of folder:PATH can be resized or cropped, not those of {}", name));
  if (const EmbeddedSet* set = embedded_set(name)) return set->make();
  if (const FileSet* set = file_set(name)) return load_files(*set, options);
  refuse_name(name);
}

}  // namespace

DataSetByName known_data_sets(const DataOptions& options) {
  return [options](const DataRequest& request) { return load_data(request, options); };
}

std::vector<std::string> data_names() {
  std::vector<std::string> names;
  for (const FileSet& set : file_sets()) names.push_back(set.summary.name);
  for (const EmbeddedSet& set : embedded_sets()) names.push_back(set.summary.name);
  return names;
}

DataSource load_data(const DataRequest& request, const DataOptions& options) {
  DataSource source = load(request, options);
  if (source.mean.empty()) {
    ChannelStatistics statistics = channel_statistics(source.train.images);
    source.mean = std::move(statistics.mean);
    source.std = std::move(statistics.std);
  }
  return source;
}

std::vector<DataSummary> list_data(const DataOptions& options) {
  std::vector<DataSummary> rows;
  for (const FileSet& set : file_sets()) {
    rows.push_back(set.summary);
    if (const auto found = find_files(set, options)) rows.back().where = found->folder.string();
  }
  for (const EmbeddedSet& set : embedded_sets()) {
    rows.push_back(set.summary);
    rows.back().where = "embedded";
  }
  return rows;
}

std::vector<FileReport> verify_data(const DataRequest& request, const DataOptions& options) {
  const std::string& name = request.name;
  if (const FileSet* set = file_set(name)) return verify_files(*set, options);
  if (embedded_set(name)) throw Error(fmt::format("{} is embedded: there are no files to verify", name));
  if (!is_folder(name)) refuse_name(name);
  const std::string path = name.substr(kFolder.size());
  try {
    load_folder(request);
    return {{path, ""}};
  } catch (const Error& error) {
    return {{path, error.what()}};
  }
}

void fetch_data(const std::string& name, const FetchOptions& options) {
  if (const FileSet* set = file_set(name)) return fetch_files(*set, options);
  if (embedded_set(name) || is_folder(name)) throw Error(fmt::format("{} needs no download", name));
  refuse_name(name);
}

}  // namespace covnoise
