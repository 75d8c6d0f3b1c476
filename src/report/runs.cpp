#include "report/runs.h"

#include "covnoise/train/internal/metrics.h"
#include "covnoise/train/internal/software.h"

#include <algorithm>
#include <string>

namespace covnoise::report {
namespace {

using Json = nlohmann::ordered_json;

/// The numbers in the records of one kind, as columns.
Json columns_of(const std::vector<Json>& records, const std::string& kind) {
  Json columns = Json::object();
  std::size_t rows = 0;
  const auto pad = [&](Json& column) {
    if (column.is_null()) column = Json::array();
    while (column.size() < rows) column.push_back(nullptr);
  };
  for (const auto& record : records) {
    if (record.at("kind") != kind) continue;
    for (const auto& [key, value] : record.items()) {
      if (!value.is_number() && !value.is_null()) continue;
      pad(columns[key]);
      columns[key].push_back(value.is_null() ? Json("nan") : value);
    }
    ++rows;
  }
  for (auto& column : columns) pad(column);
  return columns;
}

bool ends_not_finite(const Json& table) {
  for (const char* key : {"train_loss", "test_loss"}) {
    const auto column = table.find(key);
    if (column != table.end() && !column->empty() && column->back() == "nan") return true;
  }
  return false;
}

/// Other commands than `covnoise paper` put runs directly in a folder "runs".
std::string name_of(const StoredRun& run) {
  const std::string name = run.name(), seed = "-s" + std::to_string(run.config().seed);
  const bool folder = run.path().filename() == name;
  if (folder && run.path().parent_path().filename() == "runs") return "";
  const bool fits = name.size() > seed.size() && name.compare(name.size() - seed.size(), seed.size(), seed) == 0;
  return fits ? name.substr(0, name.size() - seed.size()) : "";
}

std::size_t rows_of(const Json& table) { return table.empty() ? 0 : table.front().size(); }

}  // namespace

Run read_run(const StoredRun& stored) {
  Run run;
  run.path = stored.path();
  run.name = name_of(stored);
  run.config = stored.config();
  run.software = stored.document(kSoftware);
  const auto records = stored.metrics();
  run.epochs = columns_of(records, "epoch");
  run.steps = columns_of(records, "step");
  const auto epochs = run.epochs.find("epoch");
  const bool whole = epochs != run.epochs.end() && !epochs->empty() && epochs->back().is_number() &&
                     epochs->back().get<std::int64_t>() >= run.config.train.epochs;
  run.state = whole ? State::kFinished : State::kUnfinished;
  if (ends_not_finite(run.epochs) || ends_not_finite(run.steps)) run.state = State::kDiverged;
  if (!records.empty() && records.back().at("kind") == "diverged") {
    run.state = State::kDiverged;
    run.note = records.back().value("message", "");
  }
  run.warnings = warnings_of(records);
  return run;
}

std::int64_t thin_steps(std::vector<Run>& runs) {
  std::size_t most = 0;
  for (const auto& run : runs) most = std::max(most, rows_of(run.steps));
  const auto every = std::max<std::int64_t>(1, (static_cast<std::int64_t>(most) + kMostSteps - 1) / kMostSteps);
  if (every == 1) return every;
  for (auto& run : runs) {
    for (auto& column : run.steps) {
      Json kept = Json::array();
      for (auto i = static_cast<std::size_t>(every) - 1; i < column.size(); i += static_cast<std::size_t>(every)) {
        kept.push_back(column[i]);
      }
      column = std::move(kept);
    }
  }
  return every;
}

}  // namespace covnoise::report
