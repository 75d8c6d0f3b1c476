#include "datasets/procedural/procedural.h"

#include "datasets/procedural/strokes.h"

#include <gtest/gtest.h>

#include <cmath>

namespace covnoise {
namespace {

TEST(Procedural, SineIsClose) {
  for (int i = -3000; i <= 3000; ++i) {
    const float turns = 0.001f * static_cast<float>(i);
    EXPECT_NEAR(sine(turns), std::sin(2 * M_PI * turns), 2e-4) << turns;
    EXPECT_NEAR(cosine(turns), std::cos(2 * M_PI * turns), 2e-4) << turns;
  }
}

TEST(Procedural, FractionIsDistanceFromTheFloor) {
  for (const float x : {-2.75f, -1.0f, -0.25f, 0.0f, 0.5f, 3.0f, 7.125f})
    EXPECT_EQ(fraction(x), x - std::floor(x)) << x;
}

TEST(Dice, DrawsWithTheStatedMoments) {
  constexpr int kDraws = 40000;
  Dice dice({5, Purpose::kData, 0}, 1);
  double uniform = 0, bell = 0, bell_squared = 0;
  int sixes = 0;
  for (int i = 0; i < kDraws; ++i) {
    uniform += dice.uniform(-1.0f, 3.0f);
    const double b = dice.bell();
    bell += b;
    bell_squared += b * b;
    sixes += dice.integer(1, 6) == 6 ? 1 : 0;
  }
  const double tolerance = 5 / std::sqrt(kDraws);  // five standard errors of a variance-one mean
  EXPECT_NEAR(uniform / kDraws, 1.0, 1.2 * tolerance);
  EXPECT_NEAR(bell / kDraws, 0.0, tolerance);
  EXPECT_NEAR(bell_squared / kDraws, 1.0, 1.5 * tolerance);
  EXPECT_NEAR(sixes / double{kDraws}, 1.0 / 6, 0.4 * tolerance);
}

TEST(Dice, ExamplesHaveTheirOwnNumbers) {
  const RandomStream stream{5, Purpose::kData, 0};
  Dice first(stream, 0), again(stream, 0), second(stream, 1);
  const std::uint32_t bits = first.bits();
  EXPECT_EQ(bits, again.bits());
  EXPECT_NE(bits, second.bits());
}

TEST(Strokes, SmoothPathPassesThroughItsPoints) {
  const std::vector<Point> points{{0.0f, 0.0f}, {1.0f, 2.0f}, {3.0f, 1.0f}};
  const std::vector<Point> path = flatten({points, true});
  for (const Point& point : points) {
    float nearest = 1e9f;
    for (const Point& p : path) nearest = std::min(nearest, std::hypot(p.x - point.x, p.y - point.y));
    EXPECT_LT(nearest, 1e-5f);
  }
}

/// Coverage of a straight stroke against the fraction of 16 x 16 samples of each pixel inside the pen's band.
TEST(Strokes, CoverageIsTheShareOfThePixel) {
  const Point a{4.3f, 20.1f}, b{22.4f, 20.1f};
  constexpr float kRadius = 2.2f;
  Pen pen;
  Pen::Plane picture;
  picture.fill(0.25f);
  pen.line(a, b);
  pen.ink(kRadius, 1.0f, picture);
  for (int row = 0; row < Pen::kSide; ++row) {
    int inside = 0;
    for (int k = 0; k < 256; ++k) inside += std::abs(row + (k + 0.5f) / 256 - a.y) < kRadius ? 1 : 0;
    const float expected = 0.25f + 0.75f * static_cast<float>(inside) / 256;
    EXPECT_NEAR(picture[static_cast<std::size_t>(row * Pen::kSide + 13)], expected, 0.01f) << row;
  }
}

TEST(Strokes, InkStaysNearItsPath) {
  Pen pen;
  Pen::Plane picture{};
  pen.line({5.0f, 5.0f}, {5.0f, 5.0f});  // a dot
  pen.ink(1.5f, 1.0f, picture);
  for (int i = 0; i < Pen::kSide * Pen::kSide; ++i) {
    const float distance = std::hypot(i % Pen::kSide + 0.5f - 5.0f, i / Pen::kSide + 0.5f - 5.0f);
    const float value = picture[static_cast<std::size_t>(i)];
    EXPECT_TRUE(distance > 2.0f ? value == 0.0f : value > 0.0f || distance > 1.99f) << i;
  }
  pen.ink(1.5f, 1.0f, picture);  // the path was consumed
  EXPECT_LT(picture[0], 0.01f);
}

}  // namespace
}  // namespace covnoise
