#pragma once
#include "covnoise/core/internal/statistics.h"
#include "experiment/paper/result.h"

namespace covnoise::paper {

/// The regime that variants and the bars of figure 5b are compared with: the large batch.
constexpr const char* kGround = "lb";

/// A comparison on one row, in points of test accuracy.
struct RowDifference {
  Row row;
  std::int64_t first_seeds = 0, second_seeds = 0;
  Estimate difference;   ///< Welch's
  double p = NAN;        ///< of no difference, adjusted by Holm's method over the rows
  double paper = NAN;    ///< the paper's difference
  double paper_p = NAN;  ///< of the paper's being the true difference, adjusted likewise

  bool there() const { return first_seeds > 0 && second_seeds > 0; }
  std::string seeds_text() const;  ///< "3, 2"
};

/// A comparison on all rows of an item.
struct ComparedRows {
  Comparison comparison;
  std::vector<RowDifference> rows;
  Pooled pooled;

  std::string name() const;  ///< "lb-diag - lb"
};

/// A comparison of two cells of a row. p values are not adjusted.
RowDifference compare_cells(const Cell& first, const Cell& second);
/// Adjusts the p values by Holm's method over these comparisons.
void adjust(const std::vector<RowDifference*>& compared);

/// All comparisons of the item, in its order.
std::vector<ComparedRows> compare_rows(const Context& context);

/// What the columns of comparison_table() are.
extern const char* const kComparisonNote;
/// A line per row of the item and one for the pooled difference; its title is the comparison's name.
Table comparison_table(const ComparedRows& compared);
/// The differences pooled over the rows on CIFAR alone, in a sentence: those of the small networks vary least and weigh
/// most in the mean over all rows. Empty if there are fewer than two of either kind.
std::string cifar_note(const std::vector<ComparedRows>& comparisons);

std::string estimate_text(const Estimate& estimate);  ///< "+0.41 [-0.44, +1.26]"
std::string p_text(double p);                         ///< "0.034", "< 0.001", "-" if it is not known
Json estimate_json(const Estimate& estimate);
Json comparison_json(const ComparedRows& compared);

}  // namespace covnoise::paper
