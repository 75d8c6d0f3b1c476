#include "covnoise/ops/norm_group_sums.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/device.h"

namespace covnoise {
namespace {

struct GroupSumsCase {
  std::vector<std::int64_t> sizes;       ///< [M, P, C]
  std::vector<std::int64_t> statistics;  ///< [A, B]
  std::int64_t group;
};

struct GroupSumsProblem {
  at::Tensor dy, x, mean, rstd;
};

GroupSumsProblem make_group_sums_problem(const GroupSumsCase& test, at::ScalarType type) {
  at::manual_seed(11);
  const auto draw = [&](at::IntArrayRef sizes) { return testing::on_device(at::randn(sizes, at::kDouble).to(type)); };
  return {draw(test.sizes), draw(test.sizes) + 1, draw(test.statistics), draw(test.statistics).abs() + 0.5};
}

/// [2, G, C], by the definition, one row after another.
at::Tensor sums_by_definition(const GroupSumsProblem& p, std::int64_t group) {
  const std::int64_t m = p.x.size(0), positions = p.x.size(1), channels = p.x.size(2);
  const std::int64_t a = p.mean.size(0), b = p.mean.size(1), groups = (m + group - 1) / group;
  const auto host = [](const at::Tensor& tensor) { return tensor.to(at::kCPU, at::kDouble).contiguous(); };
  const auto dy = host(p.dy), x = host(p.x), mean = host(p.mean), rstd = host(p.rstd);
  auto sums = at::zeros({2, groups, channels}, at::kDouble);
  for (std::int64_t row = 0; row < m * positions; ++row)
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::int64_t at = row * channels + c, statistic = row * a / (m * positions) * b + c * b / channels;
      const double d = dy.data_ptr<double>()[at];
      const double xhat =
          (x.data_ptr<double>()[at] - mean.data_ptr<double>()[statistic]) * rstd.data_ptr<double>()[statistic];
      const std::int64_t target = row / positions / group * channels + c;
      sums.data_ptr<double>()[target] += d * xhat;
      sums.data_ptr<double>()[groups * channels + target] += d;
    }
  return sums;
}

at::Tensor moments_by_definition(const at::Tensor& sums, std::int64_t examples, std::int64_t group) {
  auto weights = at::ones({sums.size(1), 1}, at::kDouble);
  weights[-1] *= static_cast<double>(group) / static_cast<double>(examples - (sums.size(1) - 1) * group);
  return at::stack({sums.sum(1), (sums.square() * weights).sum(1)}, 1);
}

class NormGroupSumsOf : public ::testing::TestWithParam<GroupSumsCase> {};

TEST_P(NormGroupSumsOf, AreThoseOfTheDefinition) {
  for (const auto type : {at::kDouble, at::kFloat}) {
    const double tolerance = type == at::kDouble ? 1e-12 : 2e-5;
    const auto p = make_group_sums_problem(GetParam(), type);
    const auto found = norm_group_sums(p.dy, p.x, p.mean, p.rstd, GetParam().group);
    const auto sums = sums_by_definition(p, GetParam().group);
    const auto moments = moments_by_definition(sums, p.x.size(0), GetParam().group);
    EXPECT_EQ(found.sums.scalar_type(), type);
    const auto close = [&](const at::Tensor& a, const at::Tensor& b) {
      return a.to(at::kCPU, at::kDouble).sub(b).abs().max().item<double>() < tolerance * b.abs().max().item<double>();
    };
    ASSERT_EQ(found.sums.sizes(), sums.sizes());
    EXPECT_TRUE(close(found.sums, sums));
    EXPECT_TRUE(close(found.gradients, sums.sum(1)));
    EXPECT_TRUE(close(found.moments, moments));
    EXPECT_FALSE(found.gradients.is_alias_of(found.moments));
  }
}

TEST_P(NormGroupSumsOf, DoNotDependOnTheLayout) {
  const auto p = make_group_sums_problem(GetParam(), at::kDouble);
  const auto by_channel = [](const at::Tensor& t) { return t.transpose(1, 2).contiguous().transpose(1, 2); };
  const auto a = norm_group_sums(p.dy, p.x, p.mean, p.rstd, GetParam().group);
  const auto b = norm_group_sums(by_channel(p.dy), by_channel(p.x), p.mean, p.rstd, GetParam().group);
  EXPECT_TRUE(at::allclose(a.sums, b.sums, 1e-12, 1e-12));
  EXPECT_TRUE(at::allclose(a.moments, b.moments, 1e-12, 1e-12));
}

INSTANTIATE_TEST_SUITE_P(Shapes, NormGroupSumsOf,
                         ::testing::Values(GroupSumsCase{{6, 5, 8}, {1, 8}, 2},     // batch normalisation
                                           GroupSumsCase{{7, 1, 3}, {1, 3}, 4},     // the last group is smaller
                                           GroupSumsCase{{4, 9, 16}, {1, 16}, 1},   // by example
                                           GroupSumsCase{{5, 7, 12}, {35, 1}, 2},   // layer normalisation
                                           GroupSumsCase{{5, 4, 12}, {5, 3}, 3},    // group normalisation
                                           GroupSumsCase{{12, 2, 40}, {3, 40}, 6},  // ghost batches in a group
                                           GroupSumsCase{{12, 2, 40}, {3, 40}, 2},  // groups in a ghost batch
                                           GroupSumsCase{{6, 2, 1}, {2, 1}, 100},   // one group
                                           GroupSumsCase{{4, 70, 2056}, {1, 2056}, 2}));

TEST(NormGroupSums, TakesBFloat16) {
  auto p = make_group_sums_problem({{6, 5, 8}, {1, 8}, 2}, at::kFloat);
  p.dy = p.dy.to(at::kBFloat16), p.x = p.x.to(at::kBFloat16);
  const auto found = norm_group_sums(p.dy, p.x, p.mean, p.rstd, 2);
  EXPECT_EQ(found.sums.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::allclose(found.sums.to(at::kCPU, at::kDouble), sums_by_definition(p, 2), 1e-4, 1e-4));
}

TEST(NormGroupSums, RefusesWhatIsNoRowsOrStatistics) {
  const auto of = [](at::IntArrayRef sizes) { return testing::on_device(at::ones(sizes)); };
  EXPECT_NO_THROW(norm_group_sums(of({4, 2, 6}), of({4, 2, 6}), of({2, 3}), of({2, 3}), 2));
  EXPECT_THROW(norm_group_sums(of({4, 2, 6}), of({4, 3, 6}), of({1, 6}), of({1, 6}), 2), c10::Error);
  EXPECT_THROW(norm_group_sums(of({4, 6}), of({4, 6}), of({1, 6}), of({1, 6}), 2), c10::Error);
  EXPECT_THROW(norm_group_sums(of({4, 2, 6}), of({4, 2, 6}), of({1, 4}), of({1, 4}), 2), c10::Error);
  EXPECT_THROW(norm_group_sums(of({4, 2, 6}), of({4, 2, 6}), of({8, 6}), of({8, 6}), 2), c10::Error);
  EXPECT_THROW(norm_group_sums(of({4, 2, 6}), of({4, 2, 6}), of({1, 6}), of({1, 6}), 0), c10::Error);
}

}  // namespace
}  // namespace covnoise
