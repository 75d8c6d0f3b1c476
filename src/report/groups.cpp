#include "covnoise/train/regimes.h"
#include "report/runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace covnoise::report {
namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

/// Whether runs that differ in this key belong to different groups: not for the seed, nor for keys that do not change
/// the training.
bool separates(const std::string& key) {
  static constexpr std::array<const char*, 5> kSame = {"seed", "run.threads", "train.log_every",
                                                       "train.checkpoint_every", "train.snapshot_every"};
  return std::find(kSame.begin(), kSame.end(), key) == kSame.end();
}

Values separating_values(const Config& config) {
  Values values = shown_values(config);
  values.erase(std::remove_if(values.begin(), values.end(), [](const auto& item) { return !separates(item.first); }),
               values.end());
  return values;
}

std::size_t regime_rank(const std::string& regime) {
  const auto names = regime_names();
  return static_cast<std::size_t>(std::find(names.begin(), names.end(), regime) - names.begin());
}

/// Groups of one model, data set and regime.
using Family = std::tuple<std::string, std::string, std::size_t, std::string>;

Family family_of(const Config& config) {
  return {config.model, config.data.name, regime_rank(config.regime), config.regime};
}

/// Whether the values of these keys differ between all groups of a family.
bool tell_apart(const std::vector<std::size_t>& keys, const std::vector<Values>& family) {
  std::set<std::vector<std::string>> seen;
  for (const auto& values : family) {
    std::vector<std::string> own;
    for (const std::size_t key : keys) own.push_back(values[key].second);
    seen.insert(std::move(own));
  }
  return seen.size() == family.size();
}

/// A minimal set of keys that tells the groups of a family apart; earlier keys are preferred.
std::vector<std::size_t> telling_keys(const std::vector<Values>& family) {
  std::vector<std::size_t> keys(family.front().size());
  std::iota(keys.begin(), keys.end(), std::size_t{0});
  for (std::size_t i = keys.size(); i-- > 0;) {
    auto fewer = keys;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (tell_apart(fewer, family)) keys = std::move(fewer);
  }
  return keys;
}

/// The name of all runs of a group; empty if they have none, or several.
std::string common_name(const Group& group, const std::vector<Run>& runs) {
  const std::string& name = runs[group.runs.front()].name;
  const bool common =
      std::all_of(group.runs.begin(), group.runs.end(), [&](std::size_t i) { return runs[i].name == name; });
  return common ? name : "";
}

/// Replaces the labels of groups by their names where no other group of the model and data set has one of the two.
void prefer_names(std::vector<Group>& groups, const std::vector<Run>& runs) {
  using Title = std::tuple<std::string, std::string, std::string>;
  const auto titled = [&](const Group& group, const std::string& label) {
    const Config& config = runs[group.runs.front()].config;
    return Title{config.model, config.data.name, label};
  };
  std::map<Title, std::set<const Group*>> claims;
  for (const auto& group : groups) {
    for (const auto& label : {group.label, common_name(group, runs)}) claims[titled(group, label)].insert(&group);
  }
  for (auto& group : groups) {
    const std::string name = common_name(group, runs);
    if (!name.empty() && claims[titled(group, name)].size() == 1) group.label = name;
  }
}

}  // namespace

Values shown_values(const Config& config) {
  Values values = config_values(config);
  for (auto& [key, text] : values) {
    const bool plain = text.size() >= 2 && text.front() == '"' && text.find('\\') == std::string::npos;
    if (plain) text = text.substr(1, text.size() - 2);
  }
  return values;
}

std::vector<Group> group_runs(const std::vector<Run>& runs) {
  std::map<Family, std::map<Values, std::vector<std::size_t>>> families;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    families[family_of(runs[i].config)][separating_values(runs[i].config)].push_back(i);
  }
  std::vector<Group> groups;
  for (auto& [family, members] : families) {
    std::vector<Values> all;
    for (const auto& member : members) all.push_back(member.first);
    const auto keys = telling_keys(all);
    for (auto& [values, indices] : members) {
      std::stable_sort(indices.begin(), indices.end(),
                       [&](std::size_t a, std::size_t b) { return runs[a].config.seed < runs[b].config.seed; });
      std::string label = std::get<3>(family);
      for (const std::size_t key : keys) label += fmt::format(", {} {}", values[key].first, values[key].second);
      groups.push_back({label, indices});
    }
  }
  prefer_names(groups, runs);
  return groups;
}

}  // namespace covnoise::report
