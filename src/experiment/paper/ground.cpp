#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/experiment/internal/paper.h"
#include "covnoise/experiment/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace covnoise::paper {
namespace {

namespace fs = std::filesystem;

/// Keys of a search that a recipe does not take over: what judged and what was measured, not how it was trained.
const std::set<std::string> kOfTheSearch = {
    "regime", "seed", "data.holdout", "train.eval_every", "train.eval_train", "train.snapshot_every"};

std::string key_of(const std::string& setting) {
  const auto key = setting.substr(0, setting.find('='));
  return key == "data" ? "data.name" : key;
}

/// "key = value" for those of the keys that a recipe takes over, in the order of a configuration.
std::string lines_of(const Config& config, const std::set<std::string>& keys) {
  std::string text;
  for (const auto& [key, value] : config_values(config)) {
    if (keys.count(key) > 0 && kOfTheSearch.count(key) == 0) text += fmt::format("{} = {}\n", key, value);
  }
  return text;
}

/// The settings of one regime, best first.
std::vector<SweepOutcome> settings_of(const std::vector<SweepOutcome>& outcomes, const std::string& regime) {
  std::vector<SweepOutcome> found;
  std::copy_if(outcomes.begin(), outcomes.end(), std::back_inserter(found),
               [&](const SweepOutcome& outcome) { return outcome.point.runs.front().config.regime == regime; });
  return found;
}

/// Refuses a search that is not complete, and one that did not try as many settings for both batches.
void check_search(const fs::path& search, const SweepOptions& options, const std::vector<SweepOutcome>& outcomes) {
  require(!options.recipe.has_value(),
          fmt::format("{}: has a recipe of its own; write its settings into [set]", search.string()));
  const auto missing = std::count_if(outcomes.begin(), outcomes.end(), [](const SweepOutcome& outcome) {
    return outcome.ended < static_cast<std::int64_t>(outcome.point.runs.size());
  });
  require(missing == 0, fmt::format("{0}: {1} of {2} settings are not trained yet; covnoise sweep {0} trains "
                                    "them, with --collect it saves the table",
                                    search.string(), missing, outcomes.size()));
  const auto small = settings_of(outcomes, "sb").size(), large = settings_of(outcomes, "lb").size();
  require(small == large && large > 0,
          fmt::format("{}: tries {} settings of sb and {} of lb; both need as many", search.string(), small, large));
  for (const auto& outcome : {settings_of(outcomes, "sb").front(), settings_of(outcomes, "lb").front()}) {
    require(outcome.ended > outcome.diverged, fmt::format("{}: every setting of a regime diverged", search.string()));
  }
}

std::string chosen_text(const std::string& regime, const std::vector<SweepOutcome>& settings,
                        const std::set<std::string>& varied) {
  const auto& best = settings.front();
  return fmt::format("# {}: the best of {} settings, {:.2f} % on held-out examples ({} seed{} each)\n{}", regime,
                     settings.size(), 100 * best.accuracy, best.point.runs.size(),
                     best.point.runs.size() == 1 ? "" : "s", lines_of(best.point.runs.front().config, varied));
}

/// Tables of the regimes whose noise is clipped apart from the gradient: one factor on both is a lower learning rate
/// where the noise is long, which jumps back at its end. Four times the norm of the gradient leaves the noise its scale
/// (docs/noise.md). lb-diag-match has none, because it would miss its temperature.
std::string clipped_apart_text(const Config& lb) {
  if (lb.train.clip_norm == 0) return "";
  Config noisy = lb;
  noisy.noise.clip_norm = 4 * lb.train.clip_norm;
  const auto line = lines_of(noisy, {"noise.clip_norm"});
  std::string text = "# Noise is clipped apart from the gradient, to four times train.clip_norm of lb.\n";
  for (const char* regime : {"lb-diag", "lb-trace", "lb-kfac", "lb-full"})
    text += fmt::format("[regimes.{}]\n{}\n", regime, line);
  return text;
}

/// What lb-diag-match has to know of sb: its learning rate, and its schedule and warm-up where lb's are others.
std::string matched_text(const TrainConfig& sb, const Config& lb) {
  Config match = lb;
  std::set<std::string> keys = {"noise.match_lr"};
  match.noise.match_lr = sb.lr;
  if (sb.schedule != lb.train.schedule) keys.insert("noise.match_schedule"), match.noise.match_schedule = sb.schedule;
  if (sb.warmup != lb.train.warmup) keys.insert("noise.match_warmup"), match.noise.match_warmup = sb.warmup;
  return "[regimes.lb-diag-match]\n" + lines_of(match, keys);
}

}  // namespace

bool write_ground(const fs::path& search, const fs::path& recipe) {
  const auto file = read_sweep_file(search);
  require(file.has_value(), fmt::format("{}: not a sweep file", search.string()));
  const auto points = sweep_points(file->options);
  require(!file->table.empty() && fs::exists(file->table),
          fmt::format("{0}: there is no table {1}; covnoise sweep {0} --collect saves it", search.string(),
                      file->table.string()));
  const fs::path no_runs = file->table / "none";  // the table has them, whatever settings they had on top
  const auto outcomes = collect_sweep(points, no_runs, file->table).outcomes;
  check_search(search, file->options, outcomes);

  std::set<std::string> common, varied;
  for (const auto& setting : file->options.set) common.insert(key_of(setting));
  for (const auto& point : points) {
    for (const auto& [key, value] : point.values) varied.insert(key_of(key));
  }
  for (const auto& key : varied) common.erase(key);
  const auto small = settings_of(outcomes, "sb"), large = settings_of(outcomes, "lb");
  const auto& lb = large.front().point.runs.front().config;
  const auto& sb = small.front().point.runs.front().config.train;
  const auto text = fmt::format(
      "# Written by covnoise paper ground from {} and its results; regimes with noise have the settings of "
      "lb.\n{}train.eval_train = \"last\"\n\n{}\n[regimes.sb]\n{}\n[regimes.batch-change]\ntrain.lr = {}\n"
      "train.batch_schedule = [[{}, {}, {}]]\n\n{}{}",
      search.generic_string(), lines_of(lb, common), chosen_text("lb", large, varied), chosen_text("sb", small, varied),
      sb.lr, lb.noise.stop_after, lb.train.batch, lb.train.lr, clipped_apart_text(lb), matched_text(sb, lb));
  load_recipe(text, recipe.string(), {});
  if (fs::exists(recipe) && read_file(recipe) == text) return false;
  require(!fs::exists(recipe), fmt::format("{} has other settings; remove it to write it again", recipe.string()));
  write_file_synced(recipe, text);
  return true;
}

}  // namespace covnoise::paper
