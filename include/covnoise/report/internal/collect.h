#pragma once
#include "covnoise/train/config.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

/// What `covnoise report` shows, read from folders of runs and of figures.
namespace covnoise::report {

enum class State { kFinished, kUnfinished, kDiverged };

/// One run. Tables are objects of columns, {"step": [...], ...}, of one length; a number that is absent is null, one
/// that is not finite the text "nan".
struct Run {
  std::filesystem::path path;  ///< its folder; FILE#NAME where only a record of it is there
  Config config;
  State state = State::kUnfinished;
  std::string note;                 ///< how it ended, where it diverged
  nlohmann::ordered_json software;  ///< its software.json, what trained it; an empty object where it has none
  nlohmann::ordered_json epochs, steps;
};

/// Runs whose configurations differ in the seed alone, and in what does not change the training. The label is the
/// regime and no more keys than tell the group from others of its model, data and regime.
struct Group {
  std::string label;
  std::vector<std::size_t> runs;  ///< indices, by seed
};

struct Figure {
  std::string name, title, svg;
};

struct DataFile {
  std::string name;
  std::uintmax_t bytes = 0;
  std::optional<std::string> text;  ///< none: too large to be embedded
};

/// Figures of one folder and the numbers beside them.
struct FigureFolder {
  std::filesystem::path path;
  std::vector<Figure> figures;
  std::vector<DataFile> files;  ///< *.csv and *.json
};

struct Report {
  std::vector<std::string> sources;  ///< the folders asked for
  std::vector<Run> runs;             ///< by path
  std::int64_t every = 1;            ///< of the step records of all runs, every such one is in `steps`
  std::vector<Group> groups;         ///< by model, data, regime in the order of regime_names(), label
  std::vector<FigureFolder> folders;
  std::vector<std::string> problems;  ///< runs that could not be read, one line each
};

/// Searches the folders, and those below them down to a sensible depth, for runs (config.toml and metrics.jsonl),
/// records of runs (*.jsonl.gz) and figures (*.svg). A record is left out if the folder of its run was found. A folder
/// that is missing or has none of these is an Error; a run that cannot be read is a problem.
Report collect(const std::vector<std::filesystem::path>& folders);

/// Longer tables of steps are thinned.
constexpr std::int64_t kMostSteps = 2000;
/// Larger data files are named, not embedded.
constexpr std::uintmax_t kLargestFile = 4 << 20;

}  // namespace covnoise::report
