#include "covnoise/core/error.h"
#include "covnoise/experiment/sweep.h"
#include "covnoise/ops/philox.h"
#include "covnoise/train/defaults.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <set>
#include <sstream>

namespace covnoise {
namespace {

/// A key with its values, or with the ends of a range to draw from.
struct Axis {
  std::string key;
  std::vector<std::string> values;
  bool range = false, logarithmic = false;
  double from = 0, to = 0;
};

/// At commas that are not inside brackets: "[1,2],[3,4]" has two parts. Brackets in quotes are text.
std::vector<std::string> split_values(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  bool quotes = false;
  char before = 0;
  for (const char c : text) {
    if (c == '"' && before != '\\') quotes = !quotes;
    if (!quotes) depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    before = before == '\\' ? char{0} : c;  // an escaped backslash escapes nothing
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

/// `option` is where the text was given.
Axis parse_axis(const std::string& text, const char* option = "--vary") {
  const auto equals = text.find('=');
  require(equals != std::string::npos && equals > 0 && equals + 1 < text.size(),
          fmt::format("{} {}: write key=value,value,...", option, text));
  Axis axis;
  axis.key = text.substr(0, equals);
  const std::string values = text.substr(equals + 1);
  axis.logarithmic = values.rfind("log:", 0) == 0;
  axis.range = axis.logarithmic || values.rfind("lin:", 0) == 0;
  if (!axis.range) {
    axis.values = split_values(values);
    std::set<std::string> known;
    for (const auto& value : axis.values) {
      require(!value.empty(), fmt::format("{} {}: a value is empty", option, text));
      require(known.insert(value).second, fmt::format("{} {}: {} twice", option, text, value));
    }
    return axis;
  }
  char* end = nullptr;
  axis.from = std::strtod(values.c_str() + 4, &end);
  const bool colon = *end == ':';
  axis.to = colon ? std::strtod(end + 1, &end) : 0;
  require(colon && *end == '\0' && axis.from < axis.to && (!axis.logarithmic || axis.from > 0),
          fmt::format("--vary {}: a range is log:from:to or lin:from:to, ascending, positive for log", text));
  return axis;
}

using Values = std::vector<std::pair<std::string, std::string>>;

std::vector<Values> grid(const std::vector<Axis>& axes) {
  std::vector<Values> points(1);
  for (const auto& axis : axes) {
    require(!axis.range, fmt::format("--vary {}: a range needs --random N", axis.key));
    std::vector<Values> more;
    for (const auto& point : points) {
      for (const auto& value : axis.values) {
        more.push_back(point);
        more.back().emplace_back(axis.key, value);
      }
    }
    points = std::move(more);
  }
  return points;
}

std::string drawn(const Axis& axis, const RandomStream& stream, std::uint64_t index) {
  if (!axis.range) return axis.values[stream.below(static_cast<std::uint32_t>(axis.values.size()), index)];
  const double u = uniform_open(stream.words(index).x[1]);
  const double value =
      axis.logarithmic ? axis.from * std::pow(axis.to / axis.from, u) : axis.from + u * (axis.to - axis.from);
  return fmt::format("{:.4g}", value);
}

std::vector<Values> random_points(const std::vector<Axis>& axes, std::int64_t count, std::uint64_t seed) {
  std::vector<Values> points;
  for (std::int64_t i = 0; i < count; ++i) {
    const RandomStream stream{seed, Purpose::kAnalysis, static_cast<std::uint32_t>(i)};
    points.emplace_back();
    for (std::size_t a = 0; a < axes.size(); ++a) points.back().emplace_back(axes[a].key, drawn(axes[a], stream, a));
  }
  return points;
}

/// "train.lr=0.1" -> "lr0.1", without characters that do not belong in a folder name.
std::string run_name(const Values& values, const std::string& seed) {
  std::string name;
  for (const auto& [key, value] : values) {
    if (!name.empty()) name += '-';
    name += key.substr(key.rfind('.') + 1);
    for (const char c : value) {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-') name += c;
    }
  }
  if (!seed.empty()) name += (name.empty() ? "s" : "-s") + seed;
  return name;
}

Config config_of(const SweepOptions& options, const Values& values, const std::string& seed) {
  std::vector<std::string> overrides = options.set;
  for (const auto& [key, value] : values) overrides.push_back(fmt::format("{}={}", key, value));
  if (!seed.empty()) overrides.push_back("seed=" + seed);
  Config config = load_config(options.recipe, overrides);
  resolve_defaults(config);
  check_config(config);
  return config;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

/// The points of one grid, or of one random search.
std::vector<SweepPoint> points_of(const SweepOptions& options, const std::vector<std::string>& vary) {
  std::vector<Axis> axes;
  std::vector<std::string> seeds = {""};
  for (const auto& text : vary) {
    const Axis axis = parse_axis(text);
    if (axis.key == "seed") {
      seeds = axis.values;
    } else {
      axes.push_back(axis);
    }
  }
  const auto settings = options.random > 0 ? random_points(axes, options.random, options.seed) : grid(axes);
  std::vector<SweepPoint> points;
  for (const auto& values : settings) {
    SweepPoint point{values, {}};
    for (const auto& seed : seeds) point.runs.push_back({run_name(values, seed), config_of(options, values, seed)});
    points.push_back(std::move(point));
  }
  return points;
}

bool has_one_of(const SweepPoint& point, const Axis& axis) {
  return std::any_of(axis.values.begin(), axis.values.end(), [&](const auto& value) {
    return std::find(point.values.begin(), point.values.end(), std::pair(axis.key, value)) != point.values.end();
  });
}

void keep_only(std::vector<SweepPoint>& points, const std::string& text) {
  const Axis axis = parse_axis(text, "--only");
  points.erase(
      std::remove_if(points.begin(), points.end(), [&](const auto& point) { return !has_one_of(point, axis); }),
      points.end());
  require(!points.empty(), fmt::format("--only {}: no setting of the sweep has it; --plan lists all", text));
}

}  // namespace

std::vector<SweepPoint> sweep_points(const SweepOptions& options) {
  require(!options.vary.empty() || !options.grids.empty(),
          "a sweep needs at least one --vary key=value,value,... or a sweep file");
  require(options.grids.empty() || options.random == 0, "--random cannot be combined with grids: use --vary");
  auto grids = options.grids;
  if (grids.empty()) grids.emplace_back();
  std::vector<SweepPoint> points;
  std::set<std::string> names;
  for (const auto& text : grids) {
    auto vary = words_of(text);
    vary.insert(vary.end(), options.vary.begin(), options.vary.end());
    for (auto& point : points_of(options, vary)) {
      if (names.insert(point.runs.front().name).second) points.push_back(std::move(point));
    }
  }
  for (const auto& text : options.only) keep_only(points, text);
  return points;
}

}  // namespace covnoise
