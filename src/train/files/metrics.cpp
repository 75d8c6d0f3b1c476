#include "covnoise/train/internal/metrics.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cmath>

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/core/internal/json.h"
#include "covnoise/train/internal/run_folder.h"
#include "covnoise/train/internal/tensorboard.h"
#include "train/files/checked_json.h"

namespace covnoise {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::uint64_t kLargestMetrics = std::uint64_t{1} << 30;  // millions of lines

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

std::string line_of(Json record) {
  add_checksum(record);
  return record.dump() + "\n";
}

/// What is wrong with a line; empty, with the record in `record`, if nothing is.
std::string parse_line(std::string_view line, Json& record) {
  record = parse_json(line);
  if (!is_metrics_record(record)) return "not a metrics record";
  return take_checksum(record) == Checksum::kWrong ? "does not match its checksum" : "";
}

bool is_warning(const Json& record) { return record.value("kind", "") == "warning"; }

/// Whether the text after the last end of line is a whole line whose end was damaged. Otherwise it is a torn write.
bool has_damaged_end(std::string_view rest) {
  Json record;
  return !rest.empty() && parse_line(rest.substr(0, rest.size() - 1), record).empty();
}

/// The records up to step `last`. What follows them is written again when the run is resumed, so damage there is
/// ignored; any other damage is an Error. Without `last`, only a torn last line is ignored.
std::vector<Json> whole_records(const fs::path& path, std::optional<std::int64_t> last) {
  std::vector<Json> records;
  if (!fs::exists(path)) return records;
  const std::string text = read_file(path, kLargestMetrics);
  std::string damage;  // the first
  const auto note = [&](std::size_t line, const std::string& problem) {
    if (damage.empty())
      damage = fmt::format("{}:{}: {}; the file is damaged: restore it from a copy, or train again in a new folder",
                           path.string(), line, problem);
  };
  std::size_t line = 0, start = 0;
  for (std::size_t end; (end = text.find('\n', start)) != std::string::npos; start = end + 1) {
    ++line;
    Json record;
    const std::string problem = parse_line(std::string_view(text).substr(start, end - start), record);
    if (!problem.empty()) {
      note(line, problem);
    } else if (!last || record["step"].get<std::int64_t>() <= *last) {
      require(damage.empty(), damage);
      records.push_back(std::move(record));
    }
  }
  if (has_damaged_end(std::string_view(text).substr(start))) note(line + 1, "its end of line is missing");
  require(last || damage.empty(), damage);
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
                                                   "clip_factor",
                                                   "noise_clip_factor",
                                                   "penalty",
                                                   "penalty_norm"};
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
    jsonl += line_of(record);
    csv += csv_row(record);
    events += event(record, now - last + seconds_of(record));
  }
  write_file_synced(run.metrics(), jsonl);
  write_file_synced(run.metrics_csv(), csv);
  write_file_synced(run.events(), events);
  files_ = std::make_unique<Files>(run);
  records_ = static_cast<std::int64_t>(records.size());
}

MetricsWriter::~MetricsWriter() = default;

void MetricsWriter::write(const Json& record) {
  TORCH_CHECK(is_metrics_record(record), "a metrics record needs a kind and a step: ", record.dump());
  files_->jsonl.write(line_of(record));
  files_->csv.write(csv_row(record));
  files_->events.write(event(record, wall_clock()));
  ++records_;
}

void MetricsWriter::flush_synced() {
  files_->jsonl.sync();
  files_->csv.sync();
  files_->events.sync();
}

bool is_metrics_record(const Json& record) {
  constexpr std::int64_t kMost = std::int64_t{1} << 53;  // whole numbers up to it are exact in every reader
  const auto is_count = [](const Json& value) {
    const bool huge = value.is_number_unsigned() && value.get<std::uint64_t>() > kMost;
    return value.is_number_integer() && !huge && value.get<std::int64_t>() >= 0;
  };
  const auto has = [&](const char* key, bool needed, auto good) {
    const auto found = record.find(key);
    return found == record.end() ? !needed : good(*found);
  };
  const auto is_text = [](const Json& value) { return value.is_string(); };
  const auto is_number = [](const Json& value) { return value.is_number(); };
  return record.is_object() && has("kind", true, is_text) && has("step", true, is_count) &&
         has("epoch", false, is_count) && has("about", false, is_text) && has("message", false, is_text) &&
         has("seconds", false, is_number);
}

bool warns_about(const Json& record, std::string_view about) {
  // Records of version 0.2 do not say what they are about: it was always the loss.
  return is_warning(record) && record.value("about", std::string(kAboutLoss)) == about;
}

std::vector<std::string> warnings_of(const std::vector<Json>& records) {
  std::vector<std::string> messages;
  for (const auto& record : records) {
    if (is_warning(record)) messages.push_back(record.value("message", ""));
  }
  return messages;
}

std::vector<Json> read_metrics(const fs::path& run_folder, std::optional<std::int64_t> last) {
  return whole_records(RunFolder{run_folder}.metrics(), last);
}

}  // namespace covnoise
