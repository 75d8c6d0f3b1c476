#include <gtest/gtest.h>

#include <vector>

#include "cuda/normalisation/norm_sums_plan.h"

namespace covnoise::cuda {
namespace {

/// Every row is in exactly one unit, of its group, whose rows have the same statistics unless they are by row.
void expect_partition(int examples, int positions, int group, int statistic_rows, bool by_row, int wanted) {
  const NormSumsPlan plan = plan_norm_sums(examples, positions, group, statistic_rows, by_row, wanted);
  const int same = examples * positions / statistic_rows;
  std::vector<int> seen(static_cast<std::size_t>(examples * positions));
  for (int unit = 0; unit < plan.units(); ++unit) {
    const auto range = plan.rows_of(unit);
    for (int row = range.begin; row < range.end; ++row) {
      ASSERT_LT(row, examples * positions);
      ++seen[static_cast<std::size_t>(row)];
      ASSERT_EQ(row / positions / group, unit / plan.units_per_group);
      if (!by_row) {
        ASSERT_EQ(row / same, range.begin / same);
      }
    }
  }
  for (const int times : seen)
    ASSERT_EQ(times, 1) << examples << " " << positions << " " << group << " " << statistic_rows << " " << wanted;
}

TEST(NormSumsPlan, DividesTheRowsAmongTheUnits) {
  for (const int examples : {1, 2, 6, 7, 12})
    for (const int positions : {1, 3, 64, 150})
      for (const int group : {1, 2, 4, 5, 100})
        for (const int wanted : {1, 7, 50, 100000}) {
          expect_partition(examples, positions, group, examples * positions, true, wanted);
          for (int statistics = 1; statistics <= examples; ++statistics)
            if (examples % statistics == 0) expect_partition(examples, positions, group, statistics, false, wanted);
        }
}

TEST(NormSumsPlan, FillsAGpuUnlessTheGroupsDoAlready) {
  EXPECT_EQ(plan_norm_sums(4096, 1024, 128, 1, false, 3168).units(), 3168);
  EXPECT_EQ(plan_norm_sums(4096, 1024, 1, 1, false, 3168).units_per_group, 1);
  EXPECT_EQ(plan_norm_sums(4096, 1, 128, 1, false, 3168).units(), 64);  // 64 rows each
}

}  // namespace
}  // namespace covnoise::cuda
