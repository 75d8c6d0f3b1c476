#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace covnoise {

/// The numbers of a run, as they come: metrics.jsonl (one object a line; the one truth), and from it metrics.csv (fixed
/// columns, empty where absent) and a TensorBoard event file. A record has `kind` ("step", "epoch" or "diverged") and
/// `step` (how many steps were done); its keys keep their order. Numbers that are not finite become null.
///
/// Write the records of a step before its checkpoint is saved, and call flush_synced between: then the lines up to a
/// checkpoint are there whenever the checkpoint is.
class MetricsWriter {
 public:
  /// A new run without `resume_after`: files of an older one are replaced. With it, lines of later steps and a torn
  /// last line are cut, and the other two files are made again.
  MetricsWriter(const std::filesystem::path& run_folder, std::optional<std::int64_t> resume_after);
  ~MetricsWriter();

  void write(const nlohmann::ordered_json& record);
  void flush_synced();

  static const std::vector<std::string>& csv_columns();

 private:
  struct Files;
  std::unique_ptr<Files> files_;
};

/// Whether this is an object with a `kind` and a `step`.
bool is_metrics_record(const nlohmann::ordered_json& json);

/// The whole lines of a run's metrics.jsonl; a torn last line is left out.
std::vector<nlohmann::ordered_json> read_metrics(const std::filesystem::path& run_folder);

}  // namespace covnoise
