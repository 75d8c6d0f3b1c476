#include "train/files/provenance.h"

#include "covnoise/core/error.h"
#include "covnoise/train/internal/metrics.h"
#include "train/config/config_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace covnoise {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "config";
constexpr const char* kData = "data_sha256";
constexpr const char* kRecords = "metrics_records";

void refuse_lost_metrics(const LoadedCheckpoint& checkpoint, const RunFolder& folder) {
  const auto& state = checkpoint.checkpoint.state;
  if (!state.contains(kRecords)) return;
  const auto expected = state.at(kRecords).get<std::size_t>();
  const std::size_t found = read_metrics(folder.root, checkpoint.step).size();
  require(found == expected, fmt::format("{} has {} records up to step {}, but its checkpoint counts {}; restore it "
                                         "from a copy, or train again in a new folder",
                                         folder.metrics().string(), found, checkpoint.step, expected));
}

/// A killed save leaves a hidden folder: then the run was not finished.
bool was_saving(const fs::path& checkpoints) {
  std::error_code none;
  const fs::directory_iterator items(checkpoints, none);
  return std::any_of(begin(items), end(items),
                     [](const auto& item) { return item.path().filename().string().rfind(".step-", 0) == 0; });
}

/// The settings that a checkpoint recorded, with the number of epochs, which it does not, of `here`. Those of earlier
/// versions lack two more keys, which are taken from there, too.
Config recorded_settings(std::string text, const std::string& name, const Config& here) {
  for (const auto& [key, value] : config_values(here)) {
    if (key != "train.epochs" && key != "train.sharpness_every" && key != "noise.penalty_every") continue;
    if (("\n" + text).find("\n" + key + " = ") == std::string::npos) text += fmt::format("{} = {}\n", key, value);
  }
  return parse_config(text, name);
}

}  // namespace

std::string settings_of(const Config& config) {
  std::string text;
  for (const auto& field : config_fields()) {
    if (field.decides_training() && field.key != "train.epochs")
      text += fmt::format("{} = {}\n", field.key, value_text(field, config));
  }
  return text;
}

void add_provenance(nlohmann::json& state, const Provenance& provenance, std::int64_t records) {
  state[kConfig] = provenance.config;
  state[kData] = provenance.data;
  state[kRecords] = records;
}

void refuse_other_config(const LoadedCheckpoint& checkpoint, const RunFolder& folder,
                         const std::function<void(const std::string&)>& say) {
  const auto& state = checkpoint.checkpoint.state;
  if (!state.contains(kConfig))
    return say(fmt::format("{} is of an earlier version: changes of its configuration and data would go unnoticed",
                           checkpoint.path.string()));
  const Config here = read_config(folder.config());
  const Config there =
      recorded_settings(state.at(kConfig).get<std::string>(), (checkpoint.path / "state.json").string(), here);
  const auto lines = difference(there, here);
  require(lines.empty(), fmt::format("{} is not the configuration of {} ({}); restore it, or train in a new folder",
                                     folder.config().string(), checkpoint.path.string(), fmt::join(lines, "; ")));
}

bool is_of_other_data(const LoadedCheckpoint& checkpoint, const std::string& data) {
  return checkpoint.checkpoint.state.value(kData, data) != data;
}

void refuse_other_provenance(const LoadedCheckpoint& checkpoint, const RunFolder& folder, const std::string& data,
                             const std::function<void(const std::string&)>& say) {
  refuse_other_config(checkpoint, folder, say);
  require(!is_of_other_data(checkpoint, data),
          fmt::format("{} was trained on other images or labels than the data set has here; give its --data-dir, or "
                      "train in a new folder",
                      folder.root.string()));
  refuse_lost_metrics(checkpoint, folder);
}

void refuse_lost_checkpoints(const RunFolder& folder) {
  if (!fs::exists(folder.config()) || was_saving(folder.checkpoints())) return;
  const std::int64_t epochs = read_config(folder.config()).train.epochs;
  for (const auto& record : read_metrics(folder.root)) {
    if (record.at("kind") != "epoch" || record.value("epoch", std::int64_t{0}) < epochs) continue;
    throw Error(
        fmt::format("{} is finished, but its checkpoints are gone: restore them, or choose another --out to "
                    "train again",
                    folder.root.string()));
  }
}

}  // namespace covnoise
