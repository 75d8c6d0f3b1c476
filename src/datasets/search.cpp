#include "covnoise/datasets/search.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/digest.h"
#include "datasets/file_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <system_error>

namespace covnoise {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

/// NAME, or else NAME.gz where that form exists; empty if neither exists.
fs::path existing(const fs::path& folder, const KnownFile& file) {
  if (is_file(folder / file.name)) return folder / file.name;
  const fs::path packed = folder / (file.name + ".gz");
  return !file.packed_sha256.empty() && is_file(packed) ? packed : fs::path();
}

/// MNIST and Fashion-MNIST use the same file names. If the folder does not tell which it is, the checksum of the labels
/// does.
bool belongs_to_another(const FileSet& set, const FoundFiles& found, const std::vector<FileSet>& known) {
  if (found.layout->form != Layout::Form::kIdx) return false;
  const std::string sha256 = sha256_hex_of_file(found.test.back());
  for (const FileSet& other : known) {
    if (other.summary.name == set.summary.name) continue;
    for (const Layout& layout : other.layouts) {
      const KnownFile& labels = layout.test.back();
      if (sha256 == labels.sha256 || sha256 == labels.packed_sha256) return true;
    }
  }
  return false;
}

struct Look {
  std::optional<FoundFiles> found;
  std::string incomplete;  // "FOLDER lacks FILE" for the first folder that has only some of the files
};

void look_in(const fs::path& folder, const Layout& layout, Look& look) {
  FoundFiles found{&layout, folder, {}, {}};
  std::string missing;
  bool any = false;
  for (const auto* list : {&layout.train, &layout.test}) {
    for (const KnownFile& file : *list) {
      const fs::path path = existing(folder, file);
      if (path.empty() && missing.empty()) missing = file.name;
      any = any || !path.empty();
      (list == &layout.train ? found.train : found.test).push_back(path);
    }
  }
  if (missing.empty()) look.found = std::move(found);
  if (!missing.empty() && any && look.incomplete.empty()) {
    look.incomplete = fmt::format("{} lacks {}", folder.string(), missing);
  }
}

Look look_everywhere(const FileSet& set, const DataOptions& options, const std::vector<FileSet>& known) {
  Look look;
  for (const fs::path& place : data_search_places(options)) {
    for (const Layout& layout : set.layouts) {
      const fs::path own = fs::path(layout.folder), last = own.filename();
      std::set<fs::path> seen;
      for (const fs::path& below : {own, last, fs::path(set.summary.name), fs::path()}) {
        if (!seen.insert(below).second) continue;
        look_in(below.empty() ? place : place / below, layout, look);
        const bool named = below == own || below == set.summary.name;
        if (look.found && !named && belongs_to_another(set, *look.found, known)) look.found.reset();
        if (look.found) return look;
      }
    }
  }
  return look;
}

}  // namespace

std::vector<fs::path> data_search_places(const DataOptions& options) {
  std::vector<fs::path> places;
  const auto add = [&](const fs::path& place) {
    if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
  };
  if (!options.directory.empty()) return {options.directory};
  if (const std::string place = environment("COVNOISE_DATA"); !place.empty()) add(place);
  add("data");
  add("datasets");
  if (const fs::path home = environment("HOME"); !home.empty()) {
    for (const char* below : {"data", "datasets", ".cache/covnoise", ".cache/torch/datasets", ".cache/torchvision"}) {
      add(home / below);
    }
  }
  return places;
}

std::optional<FoundFiles> find_files(const FileSet& set, const DataOptions& options,
                                     const std::vector<FileSet>& known) {
  return look_everywhere(set, options, known).found;
}

FoundFiles require_files(const FileSet& set, const DataOptions& options) {
  Look look = look_everywhere(set, options, file_sets());
  if (look.found) return *look.found;
  std::vector<std::string> places, folders;
  for (const fs::path& place : data_search_places(options)) places.push_back(place.string());
  for (const Layout& layout : set.layouts) folders.push_back(layout.folder);
  throw Error(
      fmt::format("{0} was not found in {1} (as {2}, {0}, or directly there){3}: run `covnoise data fetch {0}`, or "
                  "name its folder with --data-dir or the variable COVNOISE_DATA",
                  set.summary.name, fmt::join(places, ", "), fmt::join(folders, ", "),
                  look.incomplete.empty() ? "" : "; " + look.incomplete));
}

}  // namespace covnoise
