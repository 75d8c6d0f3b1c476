#include "covnoise/report/internal/page.h"

#include "build_info.h"
#include "covnoise/core/error.h"
#include "report/runs.h"
#include "report/template.h"

namespace covnoise::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kPlaceholder = "@DATA@";

const char* name_of(State state) {
  switch (state) {
    case State::kFinished:
      return "finished";
    case State::kDiverged:
      return "diverged";
    default:
      return "unfinished";
  }
}

Json to_object(const Run& run, std::int64_t every) {
  Json values = Json::array();
  for (const auto& item : shown_values(run.config)) values.push_back(item.second);
  return {{"path", run.path.string()},
          {"config", values},
          {"toml", to_toml(run.config)},
          {"state", name_of(run.state)},
          {"note", run.note},
          {"warnings", run.warnings},
          {"software", run.software},
          {"planned", run.config.train.epochs},
          {"every", every},
          {"epochs", run.epochs},
          {"steps", run.steps}};
}

Json to_object(const Group& group, const std::vector<Run>& runs) {
  const Config& config = runs[group.runs.front()].config;
  return {{"model", config.model}, {"data", config.data.name}, {"label", group.label}, {"runs", group.runs}};
}

Json to_object(const FigureFolder& folder) {
  Json figures = Json::array(), files = Json::array();
  for (const auto& figure : folder.figures) {
    figures.push_back({{"name", figure.name}, {"title", figure.title}, {"svg", figure.svg}});
  }
  for (const auto& file : folder.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"text", file.text ? Json(*file.text) : Json()}});
  }
  return {{"path", folder.path.string()}, {"figures", figures}, {"files", files}};
}

}  // namespace

std::string to_json(const Report& report) {
  Json json = {{"version", COVNOISE_VERSION}, {"sources", report.sources}, {"problems", report.problems},
               {"keys", config_keys()},       {"runs", Json::array()},     {"groups", Json::array()},
               {"folders", Json::array()}};
  for (const auto& run : report.runs) json["runs"].push_back(to_object(run, report.every));
  for (const auto& group : report.groups) json["groups"].push_back(to_object(group, report.runs));
  for (const auto& folder : report.folders) json["folders"].push_back(to_object(folder));
  // Bytes of names and files that are not UTF-8 become the replacement character.
  const std::string text = json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size() + text.size() / 16);
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

bool page_available() { return !report_template().empty(); }

std::string to_page(const Report& report) {
  if (!page_available()) {
    throw Error(
        "this build has no report page, because its charting library was not available; install npm (script/bootstrap) "
        "and build again with network access (script/build)");
  }
  const std::string_view page = report_template();
  const std::size_t at = page.find(kPlaceholder);
  return std::string(page.substr(0, at)) + to_json(report) + std::string(page.substr(at + kPlaceholder.size()));
}

}  // namespace covnoise::report
