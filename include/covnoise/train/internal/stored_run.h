#pragma once
#include "covnoise/train/config.h"
#include "covnoise/train/run_summary.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace covnoise {

/// The JSON object in a file, without its checksum; an empty object if there is no file. A damaged file is an Error.
nlohmann::ordered_json kept_json(const std::filesystem::path& path);

/// A run on disk: its folder, or a record of it. A record has the configuration, the metrics except for single steps,
/// and the JSON documents that stood beside them, but no weights.
class StoredRun {
 public:
  using Json = nlohmann::ordered_json;

  /// Reads the folder's config.toml; the metrics and documents are read when they are asked for.
  explicit StoredRun(const std::filesystem::path& folder);
  /// A record as record() made it, from this line of a record file; an Error says which line is none.
  StoredRun(const std::filesystem::path& file, std::size_t line, Json record);

  /// The folder; FILE#NAME for a line of a record file.
  const std::filesystem::path& path() const { return path_; }
  std::string name() const;  ///< of the folder or the record, such as "sb-s0"
  const Config& config() const { return config_; }
  /// Whether it is only a record: a line of a record file, or a folder, the form of records in version 0.1.
  bool is_record() const;
  /// All keys that decide the training, with their values: two runs of one identity are repetitions.
  std::string identity() const;

  std::vector<Json> metrics() const;
  /// The object in NAME.json, such as "software"; an empty object if there is none.
  Json document(const std::string& name) const;

  /// The run as one JSON object, for a line of a record file. From a folder it takes those of these documents
  /// that exist; a record stays as it is.
  Json record(const std::vector<std::string>& documents) const;

 private:
  std::filesystem::path path_;
  Config config_;
  Json record_;  // null: a folder
};

RunSummary summarize(const StoredRun& run);

}  // namespace covnoise
