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
  std::filesystem::path recipes;  ///< a folder with recipes that replace the embedded ones; rows without are left out
  std::filesystem::path results;  ///< where tables, figures and records are; empty: results/ in `runner.out`
  bool train = true;              ///< false: only report the available runs
  double scale = 1;               ///< of epochs, examples and samples: below 1 a smaller version, for tests

  std::filesystem::path results_folder() const { return results.empty() ? runner.out / "results" : results; }
};

std::vector<std::string> item_names();
/// One line per item: its name and what it shows.
std::string describe_items();

/// The runs an item would train, in their order; an unknown item, row or regime is an Error that lists the known ones.
std::vector<RunSpec> planned_runs(const std::string& item, const Options& options);
/// A table of them: their settings and states.
std::string plan_table(const std::string& item, const Options& options);

struct Outcome {
  std::string table;                         ///< as text
  std::vector<std::filesystem::path> paths;  ///< of the files written, <item>.json first
  std::vector<std::string> failures;         ///< one line per run that failed
};

/// Trains what is missing of an item, then writes results/<item>/: <item>.json (tables, notes, numbers, versions),
/// <item>.csv and the figure, and the records of its runs (results/runs/<row>.jsonl.gz). Means are over the available
/// seeds; the tables say what is missing. An Error if the folder holds results of the other size (quick or full).
Outcome reproduce(const std::string& item, const Options& options);

/// Writes the embedded recipes as files for editing, for Options::recipes.
std::vector<std::filesystem::path> write_recipes(const std::filesystem::path& folder);

/// Writes a recipe with the best settings of sb and lb that a search (a sweep file without a recipe of its own) has
/// found on held-out examples, and the noise clipped apart from the gradient; false if it was written before. An Error
/// if the search is not complete, or the recipe has other settings.
bool write_ground(const std::filesystem::path& search, const std::filesystem::path& recipe);

/// Generates the parts of `document` and of the pages in the folder of its name (docs/results.md, docs/results/*.md)
/// that stand between "<!-- paper ITEM -->" and "<!-- end ITEM -->", from `results`; FOLDER/ITEM is an item in a folder
/// of `results`. A second word selects the first "table", and of tables 2 and 3 one row ("<!-- paper table2 mnist-mlp
/// -->") or the "summary": the forest plot and its numbers. Returns the files whose text changes; they are written if
/// `write`.
std::vector<std::filesystem::path> fill_documents(const std::filesystem::path& document,
                                                  const std::filesystem::path& results, bool write = true);

}  // namespace covnoise::paper
