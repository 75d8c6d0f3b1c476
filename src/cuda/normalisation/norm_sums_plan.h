#pragma once
#include "covnoise/ops/philox.h"  // COVNOISE_HOST_DEVICE

#include <algorithm>

namespace covnoise::cuda {

/// Which rows of [M P, C] a block adds up: a unit. A group is a number of spans, in which the statistics are the same
/// throughout or one per row, and a span is a number of units. Those behind the last row are empty.
struct NormSumsPlan {
  int rows, group_rows, span_rows, unit_rows, units_per_span, units_per_group;

  struct Range {
    int begin, end;
  };
  COVNOISE_HOST_DEVICE Range rows_of(int unit) const {
    const int in_group = unit % units_per_group;
    const int span = unit / units_per_group * group_rows + in_group / units_per_span * span_rows;
    const int begin = span + in_group % units_per_span * unit_rows;
    const int span_end = span + span_rows < rows ? span + span_rows : rows;
    return {begin, begin + unit_rows < span_end ? begin + unit_rows : span_end};
  }
  int groups() const { return (rows + group_rows - 1) / group_rows; }
  int units() const { return groups() * units_per_group; }
};

/// `statistic_rows`: the number of statistics by row, A of norm_group_sums; `by_row`: one for each row. About
/// `wanted_units` units, if they have some rows each, so that a unit's sums are few beside its values.
inline NormSumsPlan plan_norm_sums(int examples, int positions, int group, int statistic_rows, bool by_row,
                                   int wanted_units) {
  constexpr int kLeastRows = 64;
  NormSumsPlan plan{};
  plan.rows = examples * positions;
  plan.group_rows = std::min(group, examples) * positions;
  const int same = plan.rows / statistic_rows;  // rows with the same statistics
  const bool whole_group = by_row || statistic_rows == 1 || same % plan.group_rows == 0;
  plan.span_rows = whole_group ? plan.group_rows : plan.group_rows % same == 0 ? same : positions;
  const int spans = plan.group_rows / plan.span_rows, most = std::max(1, plan.span_rows / kLeastRows);
  const int units = std::clamp(wanted_units / plan.groups() / spans, 1, most);
  plan.unit_rows = (plan.span_rows + units - 1) / units;
  plan.units_per_span = (plan.span_rows + plan.unit_rows - 1) / plan.unit_rows;
  plan.units_per_group = spans * plan.units_per_span;
  return plan;
}

}  // namespace covnoise::cuda
