#pragma once
#include "covnoise/data/dataset.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace covnoise {

/// Where data sets are looked for.
struct DataOptions {
  std::filesystem::path directory;  ///< --data-dir, the only one searched; empty: the usual ones (search.h)
};

/// Loads a data set by its name in the table of data_names(), or a user's own images as "folder:PATH". An unknown name
/// lists the known ones; one that is not on this machine lists the places looked in.
DataSource load_data(const DataRequest& request, const DataOptions& options);

/// load_data with these options, for whoever loads data sets by their names.
DataSetByName known_data_sets(const DataOptions& options = {});

/// The names load_data knows, without "folder:PATH".
std::vector<std::string> data_names();

/// What `covnoise data list` shows of a data set.
struct DataSummary {
  std::string name;                                  ///< as load_data takes it
  std::int64_t channels = 0, height = 0, width = 0;  ///< of an image
  std::int64_t classes = 0;                          ///< number of labels
  std::int64_t train = 0, test = 0;                  ///< number of images
  std::string where;  ///< the folder it was found in, "embedded", or empty: not on this machine
};
std::vector<DataSummary> list_data(const DataOptions& options);

/// What verification found in one file.
struct FileReport {
  std::filesystem::path file;  ///< its path
  std::string problem;         ///< one line; empty: the file is good
};
/// Checks the checksum of every file of a data set and that it can be read.
std::vector<FileReport> verify_data(const DataRequest& request, const DataOptions& options);

/// What happens while a data set is fetched.
struct FetchEvent {
  /// The file is already there, its download begins, progresses, fails, or has succeeded.
  enum class Kind { kPresent, kStarted, kBytes, kFailed, kInstalled };
  Kind kind;                ///< what happened
  std::string file;         ///< its name, without folder
  std::string text;         ///< kStarted: the URL; kFailed: why, before the next place is tried
  std::uint64_t done = 0;   ///< kBytes: on disk so far
  std::uint64_t total = 0;  ///< kBytes: 0 if the server does not say
};

/// How a data set is downloaded.
struct FetchOptions {
  std::filesystem::path directory;  ///< gets torchvision's layout below it
  std::string mirror;               ///< base URL instead of the official places
  std::function<void(const FetchEvent&)> progress = [](const FetchEvent&) {};  ///< called for each event
};
/// Downloads a data set. An interrupted download leaves FILE.part and is resumed the next time; a file is put in
/// its place only when its checksum is right. Good files that are already there are kept.
void fetch_data(const std::string& name, const FetchOptions& options);

}  // namespace covnoise
