#include "covnoise/train/internal/stored_run.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/core/internal/json.h"
#include "covnoise/train/internal/metrics.h"
#include "covnoise/train/internal/run_folder.h"
#include "train/config/config_fields.h"
#include "train/files/checked_json.h"

#include <fmt/format.h>

#include <algorithm>

namespace covnoise {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kLargestDocument = std::uint64_t{1} << 26;

bool is_run_record(const Json& json) {
  if (!json.is_object()) return false;
  const auto has = [&](const char* key, Json::value_t type) {
    const auto found = json.find(key);
    return found != json.end() && found->type() == type;
  };
  return has("run", Json::value_t::string) && has("config", Json::value_t::string) &&
         has("documents", Json::value_t::object) && has("metrics", Json::value_t::array) &&
         std::all_of(json["metrics"].begin(), json["metrics"].end(), is_metrics_record);
}

}  // namespace

Json kept_json(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return Json::object();
  auto json = parse_json(read_file(path, kLargestDocument));
  require(json.is_object() && take_checksum(json) != Checksum::kWrong,
          fmt::format("{} is damaged: {}; restore it from a copy, or remove it", path.string(),
                      json.is_object() ? "it does not match its checksum" : "it holds no JSON object"));
  return json;
}

StoredRun::StoredRun(const std::filesystem::path& folder) : path_(folder) {
  const auto config = RunFolder{folder}.config();
  require(std::filesystem::exists(config), fmt::format("{} is not a run: it has no config.toml", folder.string()));
  config_ = read_config(config);
}

StoredRun::StoredRun(const std::filesystem::path& file, std::size_t line, Json record) : record_(std::move(record)) {
  const std::string place = fmt::format("{}:{}", file.string(), line);
  require(is_run_record(record_), fmt::format("{}: not the record of a run; restore the file, or remove it", place));
  path_ = fmt::format("{}#{}", file.string(), record_["run"].get<std::string>());
  config_ = parse_config(record_["config"].get<std::string>(), place + ": config.toml");
}

std::string StoredRun::name() const {
  return record_.is_null() ? path_.filename().string() : record_["run"].get<std::string>();
}

bool StoredRun::is_record() const {
  return !record_.is_null() || !std::filesystem::exists(RunFolder{path_}.metrics_csv());
}

std::string StoredRun::identity() const {
  std::string text;
  for (const auto& field : config_fields()) {
    if (field.decides_training()) text += fmt::format("{} = {}\n", field.key, value_text(field, config_));
  }
  return text;
}

std::vector<Json> StoredRun::metrics() const {
  return record_.is_null() ? read_metrics(path_) : record_["metrics"].get<std::vector<Json>>();
}

Json StoredRun::document(const std::string& name) const {
  if (record_.is_null()) return kept_json(path_ / (name + ".json"));
  const auto found = record_["documents"].find(name);
  return found != record_["documents"].end() && found->is_object() ? *found : Json::object();
}

Json StoredRun::record(const std::vector<std::string>& documents) const {
  if (!record_.is_null()) return record_;
  Json json{{"run", name()}, {"config", to_toml(config_)}, {"documents", Json::object()}, {"metrics", Json::array()}};
  for (const auto& which : documents) {
    if (auto object = document(which); !object.empty()) json["documents"][which] = std::move(object);
  }
  for (auto& line : metrics()) {
    if (line.at("kind") != "step") json["metrics"].push_back(std::move(line));
  }
  return json;
}

}  // namespace covnoise
