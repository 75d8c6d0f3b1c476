#include "covnoise/ops/random.h"

#include "covnoise/core/threads.h"
#include "support/device.h"

#include <gtest/gtest.h>

#include <cmath>

namespace covnoise {
namespace {

TEST(Philox, GivesTheKnownAnswersOfItsAuthors) {
  // The known-answer vectors for philox4x32-10 of the Random123 distribution: counter and key all zero, all ones.
  const Philox4 zero = philox({{0, 0, 0, 0}}, 0, 0);
  EXPECT_EQ(zero.x[0], 0x6627e8d5u);
  EXPECT_EQ(zero.x[1], 0xe169c58du);
  EXPECT_EQ(zero.x[2], 0xbc57ac4cu);
  EXPECT_EQ(zero.x[3], 0x9b00dbd8u);
  const Philox4 ones = philox({{~0u, ~0u, ~0u, ~0u}}, ~0u, ~0u);
  EXPECT_EQ(ones.x[0], 0x408f276du);
  EXPECT_EQ(ones.x[1], 0x41c83b0eu);
  EXPECT_EQ(ones.x[2], 0xa20bc7c6u);
  EXPECT_EQ(ones.x[3], 0x6d5451fdu);
}

TEST(NormalPair, EqualsBoxMullerInDouble) {
  const RandomStream stream{3, Purpose::kAnalysis, 0};
  double worst = 0.0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const Philox4 w = stream.words(i);
    const double v = (static_cast<double>(w.x[0] >> 1) + 0.75) * std::pow(2.0, -31);
    const double angle =
        (static_cast<double>(w.x[1] >> 30) + static_cast<std::int32_t>(w.x[1] << 2) * std::pow(2.0, -32)) * M_PI / 2;
    const double radius = std::sqrt(-2.0 * std::log(v));
    const NormalPair p = normal_pair(w.x[0], w.x[1]);
    worst =
        std::max({worst, std::abs(p.first - radius * std::cos(angle)), std::abs(p.second - radius * std::sin(angle))});
  }
  EXPECT_LT(worst, 4e-6);  // float32 rounding of values up to 6
}

TEST(NormalPair, IsFiniteAtTheEndsOfItsRange) {
  for (const std::uint32_t radius : {0u, 1u, 0x7fffffffu, 0xfffffffeu, 0xffffffffu}) {
    for (const std::uint32_t angle : {0u, 0x20000000u, 0x40000000u, 0xffffffffu}) {
      const NormalPair p = normal_pair(radius, angle);
      EXPECT_TRUE(std::isfinite(p.first) && std::isfinite(p.second)) << radius << " " << angle;
      EXPECT_LT(std::hypot(p.first, p.second), 6.7f);
    }
  }
}

TEST(RandomStream, OfAPartHasTheNumbersOfTheWhole) {
  const auto options = testing::on_device(torch::empty({0}, torch::kFloat64)).options();
  const RandomStream whole{5, Purpose::kNoise, 2}, part{5, Purpose::kNoise, 2, 48 / 4};
  for (const auto fill : {fill_normal, fill_signs, fill_uniform}) {
    auto all = torch::empty({5000}, options), some = torch::empty({4321}, options);
    fill(all, whole);
    fill(some, part);
    EXPECT_TRUE(some.equal(all.narrow(0, 48, 4321)));
  }
}

TEST(FillNormal, HasTheMomentsOfANormal) {
  const std::int64_t n = 1 << 20;
  auto x = testing::on_device(torch::empty({n}, torch::kFloat64));
  fill_normal(x, {1, Purpose::kNoise, 7});
  const double root = std::sqrt(static_cast<double>(n));  // 5 standard errors each
  EXPECT_NEAR(x.mean().item<double>(), 0.0, 5 / root);
  EXPECT_NEAR(x.pow(2).mean().item<double>(), 1.0, 5 * std::sqrt(2.0) / root);
  EXPECT_NEAR(x.pow(3).mean().item<double>(), 0.0, 5 * std::sqrt(15.0) / root);
  EXPECT_NEAR(x.pow(4).mean().item<double>(), 3.0, 5 * std::sqrt(96.0) / root);
  const auto shifted = x.narrow(0, 1, n - 1) * x.narrow(0, 0, n - 1);
  EXPECT_NEAR(shifted.mean().item<double>(), 0.0, 5 / root);
}

TEST(FillNormal, IsAPureFunctionOfTheStreamAndTheIndex) {
  auto whole = testing::on_device(torch::empty({100003})), part = testing::on_device(torch::empty({777})),
       other = testing::on_device(torch::empty({777}));
  set_threads(2);
  fill_normal(whole, {5, Purpose::kNoise, 1});
  set_threads(1);
  fill_normal(part, {5, Purpose::kNoise, 1});
  set_threads(0);
  EXPECT_TRUE(whole.narrow(0, 0, 777).equal(part));
  for (const RandomStream& stream :
       {RandomStream{6, Purpose::kNoise, 1}, {5, Purpose::kSigns, 1}, {5, Purpose::kNoise, 2}}) {
    fill_normal(other, stream);
    EXPECT_LT((other * part).mean().abs().item<double>(), 5 / std::sqrt(777.0));
  }
}

/// For any type, size and alignment.
TEST(FillNormal, GivesTheSameNumbersInEveryType) {
  auto wide = testing::on_device(torch::empty({5003}, torch::kFloat64));
  fill_normal(wide, {9, Purpose::kNoise, 0});
  for (const auto type : {torch::kFloat64, torch::kFloat32, torch::kBFloat16}) {
    for (const std::int64_t first : {0, 1}) {
      auto buffer = testing::on_device(torch::full({5010}, 7, type));
      fill_normal(buffer.narrow(0, first, 5003), {9, Purpose::kNoise, 0});
      EXPECT_TRUE(buffer.narrow(0, first, 5003).equal(wide.to(torch::kFloat32).to(type))) << type << " " << first;
      EXPECT_TRUE(buffer.narrow(0, first + 5003, 5).eq(7).all().item<bool>());
    }
  }
}

TEST(FillSigns, AreBalancedAndNothingElse) {
  auto signs = testing::on_device(torch::empty({100000}, torch::kFloat64));
  fill_signs(signs, {2, Purpose::kSigns, 3});
  EXPECT_TRUE(signs.abs().eq(1).all().item<bool>());
  EXPECT_LT(std::abs(signs.mean().item<double>()), 5 / std::sqrt(1e5));
}

TEST(FillUniform, StaysInsideTheOpenInterval) {
  auto u = testing::on_device(torch::empty({100000}, torch::kFloat64));
  fill_uniform(u, {2, Purpose::kLabels, 3});
  EXPECT_GT(u.min().item<double>(), 0.0);
  EXPECT_LT(u.max().item<double>(), 1.0);
  EXPECT_NEAR(u.mean().item<double>(), 0.5, 5 * std::sqrt(1.0 / 12 / 1e5));
}

/// Every device gives the CPU's numbers: the same words, and normals up to rounding.
TEST(Fills, AreTheSameOnEveryDevice) {
  const RandomStream stream{4, Purpose::kNoise, 9};
  auto here = torch::empty({10003}), there = testing::on_device(torch::empty({10003}));
  fill_normal(here, stream);
  fill_normal(there, stream);
  EXPECT_TRUE(there.cpu().allclose(here, 1e-5, 2e-6));
  fill_signs(here, stream);
  fill_signs(there, stream);
  EXPECT_TRUE(there.cpu().equal(here));
  fill_uniform(here, stream);
  fill_uniform(there, stream);
  EXPECT_TRUE(there.cpu().equal(here));
}

}  // namespace
}  // namespace covnoise
