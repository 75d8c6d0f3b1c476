#include "covnoise/train/internal/metrics.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cmath>

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/train/internal/run_folder.h"
#include "covnoise/train/internal/tensorboard.h"

namespace covnoise {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

bool is_finite_number(const Json& value) { return value.is_number() && std::isfinite(value.get<double>()); }

std::string csv_row(const Json& record) {
  std::vector<std::string> cells;
  for (const auto& column : MetricsWriter::csv_columns()) {
    const auto found = record.find(column);
    const bool text = found != record.end() && found->is_string();
    const bool number = found != record.end() && is_finite_number(*found);
    cells.push_back(text ? found->get<std::string>() : number ? found->dump() : "");
  }
  return fmt::format("{}\n", fmt::join(cells, ","));
}

/// Tags such as "epoch/test_accuracy"; the step is the axis, not a scalar.
std::string event(const Json& record, double wall_time) {
  std::vector<std::pair<std::string, float>> scalars;
  for (const auto& [key, value] : record.items()) {
    if (key == "step" || !is_finite_number(value)) continue;
    scalars.emplace_back(record.at("kind").get<std::string>() + "/" + key, value.get<float>());
  }
  return tensorboard_scalars(wall_time, record.at("step").get<std::int64_t>(), scalars);
}

double seconds_of(const Json& record) {
  const auto found = record.find("seconds");
  return found != record.end() && is_finite_number(*found) ? found->get<double>() : 0;
}

/// The records up to step `last`. A damaged line at the end is a torn write and is ignored; one before intact lines is
/// an Error.
std::vector<Json> whole_records(const fs::path& path, std::optional<std::int64_t> last) {
  std::vector<Json> records;
  if (!fs::exists(path)) return records;
  const std::string text = read_file(path);
  std::size_t line = 0, bad_line = 0;
  for (std::size_t start = 0, end; (end = text.find('\n', start)) != std::string::npos; start = end + 1) {
    ++line;
    auto record = Json::parse(text.begin() + static_cast<std::ptrdiff_t>(start),
                              text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, /*allow_exceptions=*/false);
    if (!is_metrics_record(record)) {
      if (bad_line == 0) bad_line = line;
    } else if (!last || record["step"].get<std::int64_t>() <= *last) {
      if (bad_line > 0) {
        throw Error(fmt::format("{}:{}: not a metrics record; remove the line and repeat the command", path.string(),
                                bad_line));
      }
      records.push_back(std::move(record));
    }
  }
  return records;
}

}  // namespace

struct MetricsWriter::Files {
  explicit Files(const RunFolder& run)
      : jsonl(run.metrics(), OutputFile::Mode::kAppend),
        csv(run.metrics_csv(), OutputFile::Mode::kAppend),
        events(run.events(), OutputFile::Mode::kAppend) {}
  OutputFile jsonl, csv, events;
};

const std::vector<std::string>& MetricsWriter::csv_columns() {
  static const std::vector<std::string> columns = {"kind",
                                                   "step",
                                                   "epoch",
                                                   "train_loss",
                                                   "train_accuracy",
                                                   "test_loss",
                                                   "test_accuracy",
                                                   "val_loss",
                                                   "val_accuracy",
                                                   "train_eval_loss",
                                                   "train_eval_accuracy",
                                                   "lr",
                                                   "batch",
                                                   "images_per_s",
                                                   "seconds",
                                                   "grad_norm",
                                                   "noise_norm",
                                                   "fisher_trace",
                                                   "noise_scale",
                                                   "temperature",
                                                   "noise_temperature",
                                                   "weight_norm",
                                                   "clip_factor"};
  return columns;
}

MetricsWriter::MetricsWriter(const fs::path& run_folder, std::optional<std::int64_t> resume_after) {
  const RunFolder run{run_folder};
  const auto records = resume_after ? whole_records(run.metrics(), resume_after) : std::vector<Json>();
  // The wall times of earlier records are unknown, but the time between them is known.
  const double now = wall_clock(), last = records.empty() ? 0 : seconds_of(records.back());
  std::string jsonl, csv = fmt::format("{}\n", fmt::join(csv_columns(), ",")), events = tensorboard_header(now - last);
  if (fs::exists(run.config())) events += tensorboard_hparams(now - last, config_values(read_config(run.config())));
  for (const auto& record : records) {
    jsonl += record.dump() + "\n";
    csv += csv_row(record);
    events += event(record, now - last + seconds_of(record));
  }
  write_file_synced(run.metrics(), jsonl);
  write_file_synced(run.metrics_csv(), csv);
  write_file_synced(run.events(), events);
  files_ = std::make_unique<Files>(run);
}

MetricsWriter::~MetricsWriter() = default;

void MetricsWriter::write(const Json& record) {
  TORCH_CHECK(is_metrics_record(record), "a metrics record needs a kind and a step: ", record.dump());
  files_->jsonl.write(record.dump() + "\n");
  files_->csv.write(csv_row(record));
  files_->events.write(event(record, wall_clock()));
}

void MetricsWriter::flush_synced() {
  files_->jsonl.sync();
  files_->csv.sync();
  files_->events.sync();
}

bool is_metrics_record(const Json& record) {
  return record.is_object() && record.contains("kind") && record["kind"].is_string() && record.contains("step") &&
         record["step"].is_number_integer();
}

std::vector<Json> read_metrics(const fs::path& run_folder) {
  return whole_records(RunFolder{run_folder}.metrics(), {});
}

}  // namespace covnoise
