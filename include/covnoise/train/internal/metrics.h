#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace covnoise {

/// Writes the metrics of a run: metrics.jsonl (one object per line; authoritative), and derived from it metrics.csv
/// (fixed columns, empty if absent) and a TensorBoard event file, which begins with the configuration if there is a
/// config.toml. A record has `kind` ("step", "epoch", "warning" or "diverged") and `step` (the number of steps done);
/// its keys keep their order. Numbers that are not finite become null. A line of metrics.jsonl ends with the key `crc`,
/// a checksum of the others; the records that are read do not have it.
///
/// Write the records of a step before its checkpoint is saved, and call flush_synced in between: then every checkpoint
/// on the disk has its lines.
class MetricsWriter {
 public:
  /// Without `resume_after` a new run, which replaces the files of an older one. With it, lines of later steps and a
  /// torn last line are removed, and the two derived files are written again.
  MetricsWriter(const std::filesystem::path& run_folder, std::optional<std::int64_t> resume_after);
  ~MetricsWriter();

  void write(const nlohmann::ordered_json& record);
  void flush_synced();
  std::int64_t records() const { return records_; }  ///< lines of metrics.jsonl

  static const std::vector<std::string>& csv_columns();

 private:
  struct Files;
  std::unique_ptr<Files> files_;
  std::int64_t records_ = 0;
};

/// Whether this is an object with a `kind` and a `step`, and `epoch`, `about`, `message` and `seconds` have their types
/// if present.
bool is_metrics_record(const nlohmann::ordered_json& json);

// What a warning is `about`.
constexpr const char* kAboutLoss = "loss";          ///< the training loss is above that of guessing
constexpr const char* kAboutNoise = "noise";        ///< the training loss rose when the noise ended
constexpr const char* kAboutClipping = "clipping";  ///< the noise takes much of the gradient's learning rate
/// Whether the record is a warning about this.
bool warns_about(const nlohmann::ordered_json& record, std::string_view about);
/// The messages of all warnings.
std::vector<std::string> warnings_of(const std::vector<nlohmann::ordered_json>& records);

/// The records of a run's metrics.jsonl; a torn last line is left out, a damaged line is an Error. With `last`, only
/// the records up to this step, and damage after them does not matter.
std::vector<nlohmann::ordered_json> read_metrics(const std::filesystem::path& run_folder,
                                                 std::optional<std::int64_t> last = {});

}  // namespace covnoise
