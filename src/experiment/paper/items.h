#pragma once
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace covnoise::paper {

struct Context;
struct Result;

/// What the paper printed for one regime, in percent.
struct Number {
  std::string regime;
  double accuracy;
};

/// A regime with other settings, under a name of its own.
struct Variant {
  std::string name, regime;
  std::vector<std::string> settings;  ///< "key=value", on top of the recipe's for the regime
};

/// One network and data set: a recipe, and the paper's numbers. A regime with a number belongs to the row even
/// if the item does not list it.
struct Row {
  std::string recipe;
  std::string network;  ///< its name in tables
  std::vector<Number> numbers = {};
  /// Recipe and name of another network that the paper may have had; it has a row of its own if a folder of recipes has
  /// it.
  std::string other_recipe = {}, other_network = {};
  std::vector<Variant> variants = {};  ///< of the item `variants`

  double number(const std::string& regime) const;  ///< NaN if the paper has none
};

/// Test accuracy of the first regime less that of the second.
struct Comparison {
  std::string first, second;
  bool drawn = false;  ///< in the forest plot, too
};

/// The size of an item's work.
struct Effort {
  std::vector<std::uint64_t> seeds = {0, 1, 2};
  std::int64_t updates = 8000;                         ///< figure 3: length of the curves
  std::int64_t small_batch = 128, large_batch = 4096;  ///< figure 2
  std::int64_t samples = 64;                           ///< figure 2: directions of each regime
  std::int64_t examples = 2000, batches = 4;           ///< figures 5a (of one batch) and 5b
  double tolerance = 1e-3;                             ///< figure 5b
  double snapshot = 0.1;                               ///< figure 2: the network after this part of the training
  std::int64_t trajectories = 4096;                    ///< table 1
};

/// A table or figure of the paper: data, and the function that makes it from its runs.
struct Item {
  std::string name, title;
  std::string claim;  ///< the paper's statement
  Result (*make)(const Context&);
  std::vector<std::string> regimes = {};     ///< of every row
  std::vector<Comparison> comparisons = {};  ///< of tables 2 and 3, for every row
  std::vector<Row> rows = {}, quick_rows = {};
  std::vector<Row> left_out = {};  ///< rows without a recipe in a folder of recipes
  Effort effort = {}, quick_effort = {};
  bool trains = true;          ///< false: made from the runs of other items
  bool with_variants = false;  ///< rows have the variants of a folder of recipes
  bool uses_networks = true;   ///< false: records of runs are enough
  bool along_runs = false;     ///< it shows networks along the training, which its runs must keep

  /// The item's regimes in order, then those that only `row` has.
  std::vector<std::string> regimes_of(const Row& row) const;
};

const std::vector<Item>& items();

/// The item; if `quick`, `rows` and `effort` are those of its reduced version. An unknown name is an Error that lists
/// the known ones.
Item find_item(const std::string& name, bool quick);

// None of these trains: each reads the runs of its item and writes tables and figures.
Result make_table1(const Context&);
Result make_accuracies(const Context&);  ///< tables 2 and 3
Result make_variants(const Context&);
Result make_headline(const Context&);
Result make_fig1(const Context&);
Result make_fig2(const Context&);
Result make_fig3(const Context&);
Result make_fig4(const Context&);
Result make_fig5a(const Context&);
Result make_fig5b(const Context&);

}  // namespace covnoise::paper
