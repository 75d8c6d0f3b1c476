#pragma once
#include "covnoise/train/config.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

/// What `covnoise report` shows: runs and figures, read from folders.
namespace covnoise::report {

enum class State { kFinished, kUnfinished, kDiverged };

/// One run. A table is an object of columns of equal length, {"step": [...], ...}. A missing number is null, one that
/// is not finite is the text "nan".
struct Run {
  std::filesystem::path path;  ///< its folder, or FILE#NAME if only a record is available
  std::string name;            ///< in <row>/<name>-s<seed>, as `covnoise paper` calls runs; otherwise empty
  Config config;
  State state = State::kUnfinished;
  std::string note;                   ///< the message of a run that diverged
  std::vector<std::string> warnings;  ///< what the run said of its health
  nlohmann::ordered_json software;    ///< its software.json: what trained it; an empty object if it has none
  nlohmann::ordered_json epochs, steps;
};

/// Runs whose configurations differ only in the seed and in keys that do not change the training. The label is the name
/// that all of them have, if no other group of the model and data set has it; otherwise the regime, followed by as few
/// keys as distinguish the group from others of its model, data set and regime.
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
  std::optional<std::string> text;  ///< nothing if the file is too large to be embedded
};

/// The figures of a folder and the data files next to them.
struct FigureFolder {
  std::filesystem::path path;
  std::vector<Figure> figures;
  std::vector<DataFile> files;  ///< *.csv and *.json
};

struct Report {
  std::vector<std::string> sources;  ///< the folders that were searched
  std::vector<Run> runs;             ///< by path
  std::int64_t every = 1;            ///< `steps` has every n-th step record of each run
  std::vector<Group> groups;         ///< by model, data, regime in the order of regime_names(), label
  std::vector<FigureFolder> folders;
  std::vector<std::string> problems;  ///< one line per run, file or folder that could not be read
};

/// Searches the folders, and those below them down to a sensible depth, for runs (config.toml and metrics.jsonl),
/// records of runs (*.jsonl.gz) and figures (*.svg). A record is left out if the folder of its run was found. A folder
/// that is missing or has none of these is an Error; a run that cannot be read is a problem.
Report collect(const std::vector<std::filesystem::path>& folders);

/// Rows of `steps`; longer tables are thinned.
constexpr std::int64_t kMostSteps = 2000;
/// Bytes of a data file; larger ones are named, but not embedded.
constexpr std::uintmax_t kLargestFile = 4 << 20;

}  // namespace covnoise::report
