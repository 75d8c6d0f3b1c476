#pragma once
#include "covnoise/experiment/runner.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

/// The tables and figures of the paper, each as a list of runs and what is made of them.
namespace covnoise::paper {

struct Options {
  RunnerOptions runner;              ///< `out` gets runs/ (shared by all items), logs/ and results/<item>/
  bool quick = false;                ///< the reduced version, on embedded data
  std::vector<std::uint64_t> seeds;  ///< empty: the item's own
  std::vector<std::string> rows;     ///< train only these (names of recipes); empty: all
  std::vector<std::string> regimes;  ///< train only these; empty: all
  std::vector<std::string> set;      ///< "key=value", for all runs, on top of the recipes
  std::filesystem::path recipes;     ///< a folder with recipes in place of the embedded ones
  bool train = true;                 ///< false: report what is there
  double scale = 1;                  ///< of epochs, examples and samples: below 1 a smaller version, for tests
};

std::vector<std::string> item_names();
/// A line for each item: its name and what it shows.
std::string describe_items();

/// The runs an item would train, in their order; an unknown item, row or regime is an Error that lists the known ones.
std::vector<RunSpec> planned_runs(const std::string& item, const Options& options);
/// A table of them: settings, and what there is of each.
std::string plan_table(const std::string& item, const Options& options);

struct Outcome {
  std::string table;                         ///< for people
  std::vector<std::filesystem::path> paths;  ///< what was written, first <item>.json
  std::vector<std::string> failures;         ///< a line for each run that failed
};

/// Trains what is missing of an item, then writes results/<item>/: <item>.json (tables, notes, numbers, versions),
/// <item>.csv, the figure, and results/runs/<name>/ with configuration, software versions and epoch records of each
/// run. Means are over the seeds that are there; what is not there is said. An Error where the folder holds results of
/// the other size (quick or full).
Outcome reproduce(const std::string& item, const Options& options);

/// The embedded recipes as files that can be changed, for Options::recipes.
std::vector<std::filesystem::path> write_recipes(const std::filesystem::path& folder);

/// Generates the parts of `document` and of the pages in the folder of its name (docs/results.md, docs/results/*.md)
/// that stand between "<!-- paper ITEM -->" and "<!-- end ITEM -->", from `results`. For tables 2 and 3 a second word
/// selects one row ("<!-- paper table2 mnist-mlp -->") or the "summary": the forest plot and its numbers. Returns the
/// files whose text changes; they are written if `write`.
std::vector<std::filesystem::path> fill_documents(const std::filesystem::path& document,
                                                  const std::filesystem::path& results, bool write = true);

}  // namespace covnoise::paper
