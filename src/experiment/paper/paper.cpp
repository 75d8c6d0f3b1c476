#include "covnoise/experiment/internal/paper.h"

#include "covnoise/core/internal/did_you_mean.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/experiment/sweep.h"
#include "covnoise/train/internal/software.h"
#include "covnoise/train/run_summary.h"
#include "experiment/gpu_packing.h"
#include "experiment/paper/recipes.h"
#include "experiment/paper/result.h"
#include "experiment/paper/variants.h"
#include "experiment/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

namespace covnoise::paper {
namespace {

namespace fs = std::filesystem;

/// Whether `name` is wanted; an empty list means all.
bool chosen(const std::vector<std::string>& wanted, const std::string& name) {
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end();
}

void refuse_unknown(const char* kind, const std::vector<std::string>& wanted, const std::vector<std::string>& known) {
  for (const auto& name : wanted) {
    if (std::find(known.begin(), known.end(), name) == known.end()) throw Error(unknown_name(kind, name, known));
  }
}

void check_choice(const Item& item, const Options& options) {
  for (const auto& row : item.left_out) {
    for (const auto& name : {row.recipe, row.other_recipe}) {
      if (std::count(options.rows.begin(), options.rows.end(), name) > 0) find_recipe(name, options.recipes);  // throws
    }
  }
  std::vector<std::string> rows, regimes;
  for (const auto& row : item.rows) {
    rows.push_back(row.recipe);
    for (const auto& regime : item.regimes_of(row)) {
      if (std::find(regimes.begin(), regimes.end(), regime) == regimes.end()) regimes.push_back(regime);
    }
  }
  refuse_unknown("row", options.rows, rows);
  refuse_unknown("regime", options.regimes, regimes);
}

/// The item with the rows that have a recipe, and with their variants.
Item item_of(const std::string& name, const Options& options) {
  Item item = find_item(name, options.quick);
  if (options.recipes.empty() || item.rows.empty()) return item;
  const auto has = [&](const std::string& recipe) { return !recipe.empty() && has_recipe(recipe, options.recipes); };
  std::vector<std::string> known;
  for (const Row& row : std::exchange(item.rows, {})) {
    known.push_back(row.recipe);
    if (!row.other_recipe.empty()) known.push_back(row.other_recipe);
    if (has(row.recipe)) item.rows.push_back(row);
    if (has(row.other_recipe)) item.rows.push_back({row.other_recipe, row.other_network, row.numbers});
    if (!has(row.recipe) && !has(row.other_recipe)) item.left_out.push_back(row);
  }
  if (item.rows.empty()) find_recipe(item.left_out.front().recipe, options.recipes);  // says what is missing
  if (item.with_variants) add_variants(item.rows, known, options.recipes);
  return item;
}

/// Refuses to replace results of the other size (quick or full), or whose runs had other settings: none of them would
/// count, and the numbers would be lost.
void refuse_to_lose(const fs::path& path, bool quick, std::vector<std::string> settings) {
  const auto saved = kept_json(path);
  require(saved.value("quick", Json(quick)) == quick,
          fmt::format("{} holds results {} --quick; choose another --out", path.parent_path().string(),
                      quick ? "without" : "with"));
  auto kept = saved.value("settings", settings);
  std::sort(kept.begin(), kept.end());
  std::sort(settings.begin(), settings.end());
  const auto text = [](const std::vector<std::string>& all) {
    return all.empty() ? "none" : fmt::format("{}", fmt::join(all, ", "));
  };
  require(
      kept == settings,
      fmt::format("{} holds results with other settings on top of the recipes ({}, not {}): repeat the command with "
                  "them, or choose another --results",
                  path.parent_path().string(), text(kept), text(settings)));
}

Json run_json(const Trained& run) {
  Json json{{"name", run.spec.name}, {"state", state_text(run)}, {"epochs", run.summary.epoch}};
  if (!run.stored) return json;
  if (auto software = run.stored->document(kSoftware); !software.empty()) json["software"] = std::move(software);
  return json;
}

/// The device that computed the item: that of the runs if their networks were analyzed.
std::string device_of_item(const Context& context) {
  const bool looked = context.options.train && context.item.trains && !context.cells.empty();
  return looked ? context.cells.front().runs.front().spec.config.run.device : "cpu";
}

/// The settings of the runs; none for an item without runs.
std::vector<std::string> settings_of(const Item& item, const Options& options) {
  return item.rows.empty() ? std::vector<std::string>{} : options.set;
}

/// Where recipes and results are, if not in their usual places.
Json folders_of(const Options& options) {
  Json folders = Json::object();
  if (!options.recipes.empty()) folders["recipes"] = options.recipes.string();
  if (!options.results.empty()) folders["results"] = options.results.string();
  return folders;
}

Json item_json(const Context& context, const Result& result) {
  const Item& item = context.item;
  Json json{{"item", item.name},
            {"title", item.title},
            {"claim", item.claim},
            {"quick", context.options.quick},
            {"software", software_versions(device_of_item(context))},
            {"tables", Json::array()},
            {"notes", result.notes},
            {"figures", result.figures},
            {"numbers", result.numbers},
            {"settings", settings_of(context.item, context.options)},
            {"folders", folders_of(context.options)},
            {"runs", Json::array()}};
  for (const auto& table : result.tables) json["tables"].push_back(table.to_json());
  for (const auto& cell : context.cells) {
    for (const auto& run : cell.runs) json["runs"].push_back(run_json(run));
  }
  return json;
}

/// Says how many runs are not finished; empty if all are.
std::string incomplete_note(const Context& context) {
  if (!context.item.trains) return "";
  std::size_t all = 0, finished = 0;
  for (const auto& cell : context.cells) {
    all += cell.runs.size();
    finished += cell.with_state(RunState::kFinished).size();
  }
  return all == finished ? "" : fmt::format("Incomplete: {} of {} runs are finished.", finished, all);
}

void add_notes(const Context& context, Result& result) {
  if (context.options.quick && !context.item.rows.empty()) {
    result.notes.insert(result.notes.begin(),
                        "A reduced version on embedded data: it shows that everything works, not the paper's numbers.");
  }
  std::vector<std::string> rows;
  for (const auto& row : context.item.left_out) rows.push_back(row.recipe);
  if (!rows.empty()) {
    result.notes.push_back(
        fmt::format("Left out, without a recipe in {}: {}.", context.options.recipes.string(), fmt::join(rows, ", ")));
  }
  if (const auto settings = settings_of(context.item, context.options); !settings.empty()) {
    result.notes.push_back(fmt::format("Settings on top of the recipes: {}.", fmt::join(settings, ", ")));
  }
  if (const auto note = incomplete_note(context); !note.empty()) result.notes.push_back(note);
}

KnownDuration duration_of(const RunSummary& run, const Json& packing) {
  return {run.config, run.seconds, Packing(packing).side_by_side()};
}

/// The durations of the finished runs of the searches that the recipes of these rows come from (DIR/search/ROW.toml).
std::vector<KnownDuration> searched_durations(const std::vector<RunSpec>& specs, const fs::path& recipes) {
  std::set<fs::path> rows;
  for (const auto& spec : specs) rows.insert(fs::path(spec.name).parent_path());
  std::vector<KnownDuration> known;
  for (const auto& row : rows) {
    const auto search = recipes / "search" / (row.string() + ".toml");
    const auto file = fs::exists(search) ? read_sweep_file(search) : std::nullopt;
    if (!file || !fs::exists(file->out)) continue;
    for (const auto& run : find_runs(file->out, [](const std::string&) {})) {
      if (run.diverged || run.epoch != run.config.train.epochs) continue;
      known.push_back(duration_of(run, kept_json(run.path / (std::string(kPacking) + ".json"))));
    }
  }
  return known;
}

void require_networks_along(const Item& item, const std::vector<RunSpec>& specs) {
  for (const auto& run : specs) {
    require(!item.along_runs || run.config.train.snapshot_every > 0,
            fmt::format("{} shows networks along the training, of which {} keeps none: set train.snapshot_every in its "
                        "recipe, for example to a twentieth of its steps",
                        item.name, run.name));
  }
}

/// Trains the runs that are not available, and keeps the record of each as soon as it has ended. Returns the failures.
std::vector<std::string> train_missing(const Item& item, const std::vector<RunSpec>& specs, const Options& options) {
  std::vector<RunSpec> missing;
  RunnerOptions runner = options.runner;
  for (const auto& run : available_runs(item, specs, options)) {
    const bool over = run.state == RunState::kFinished || run.state == RunState::kDiverged;
    if (!run.records_only || !over) missing.push_back(run.spec);
  }
  for (const auto& cell : read_cells(item, options)) {
    for (const auto* run : cell.with_state(RunState::kFinished))
      runner.known.push_back(duration_of(run->summary, run->stored->document(kPacking)));
  }
  if (runner.minutes > 0 && !options.recipes.empty()) {
    for (const auto& run : searched_durations(missing, options.recipes)) runner.known.push_back(run);
  }
  if (missing.size() < specs.size())
    runner.say(fmt::format("{} of {} runs are in the records of {}", specs.size() - missing.size(), specs.size(),
                           options.results_folder().string()));
  runner.ended = [&](const RunSpec& spec) { keep_record(spec, options); };
  return failures_of(run_all(missing, runner));
}

std::string result_text(const Item& item, const Result& result) {
  std::string text = fmt::format("\n{}\nThe paper: {}\n\n", item.title, item.claim);
  for (const auto& table : result.tables) text += table.to_text() + "\n";
  for (const auto& note : result.notes) text += note + "\n";
  return text;
}

}  // namespace

std::vector<RunSpec> planned_runs(const std::string& name, const Options& options) {
  const Item item = item_of(name, options);
  check_choice(item, options);
  std::vector<RunSpec> specs;
  if (!item.trains) return specs;
  // Seed by seed: an interruption leaves complete tables of fewer seeds.
  for (const auto seed : options.seeds.empty() ? item.effort.seeds : options.seeds) {
    for (const auto& row : item.rows) {
      if (!chosen(options.rows, row.recipe)) continue;
      for (const auto& regime : item.regimes_of(row)) {
        if (chosen(options.regimes, regime)) specs.push_back(spec_of(row, regime, seed, options));
      }
    }
  }
  return specs;
}

std::string plan_table(const std::string& name, const Options& options) {
  const Item item = item_of(name, options);
  const auto specs = planned_runs(name, options);
  if (specs.empty())
    return fmt::format("{}: no training, {}\n", item.title, item.trains ? "computed directly" : "only records of runs");
  return fmt::format("{}: {}", item.title, plan_text(available_runs(item, specs, options)));
}

Outcome reproduce(const std::string& name, const Options& options) {
  const Item item = item_of(name, options);
  const fs::path folder = options.results_folder() / name, path = folder / (name + ".json");
  refuse_to_lose(path, options.quick, settings_of(item, options));
  const auto specs = planned_runs(name, options);
  if (options.train) require_networks_along(item, specs);
  create_folders(folder);
  std::vector<std::string> failures;
  if (options.train) failures = train_missing(item, specs, options);
  const Context context{item, options, folder, read_cells(item, options)};
  Result result = item.make(context);
  if (result.nothing && fs::exists(path)) {
    result.notes = {fmt::format("No available run has what it needs; {} stays as it is.", path.string())};
    return {result_text(item, result), {path}, failures};
  }
  add_notes(context, result);
  keep_records(context.cells, options);
  write_file_synced(path, item_json(context, result).dump(2) + "\n");
  result.paths.insert(result.paths.begin(), path);
  return {result_text(item, result), result.paths, failures};
}

}  // namespace covnoise::paper
