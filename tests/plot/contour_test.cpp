#include "plot/contour.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace covnoise::plot {
namespace {

Contours grid_of(const std::function<double(double, double)>& f, int side = 41) {
  Contours grid;
  for (int i = 0; i < side; ++i) {
    grid.x.push_back(-1 + 2.0 * i / (side - 1));
    grid.y.push_back(-1 + 2.0 * i / (side - 1));
  }
  for (const double y : grid.y) {
    for (const double x : grid.x) grid.values.push_back(f(x, y));
  }
  return grid;
}

/// Area inside closed loops, holes taken off: the shoelace formula on each, the largest outside.
double area(const Polyline& loop) {
  double twice = 0;
  for (std::size_t i = 0; i < loop.size(); ++i) {
    const Point &a = loop[i], &b = loop[(i + 1) % loop.size()];
    twice += a.x * b.y - b.x * a.y;
  }
  return std::abs(twice) / 2;
}

TEST(Contour, CircleIsOneLoopOfTheRightRadius) {
  const auto loops = contour_loops(grid_of([](double x, double y) { return x * x + y * y; }), 0.49);
  ASSERT_EQ(loops.size(), 1u);
  for (const auto& point : loops[0]) EXPECT_NEAR(std::hypot(point.x, point.y), 0.7, 1e-3);
  EXPECT_NEAR(area(loops[0]), M_PI * 0.49, 0.01);
}

TEST(Contour, RegionThatReachesTheEdgeIsClosedAlongIt) {
  const auto loops = contour_loops(grid_of([](double x, double) { return x; }), 0.25);
  ASSERT_EQ(loops.size(), 1u);
  EXPECT_NEAR(area(loops[0]), 1.25 * 2, 1e-9);
}

TEST(Contour, RingHasAHole) {
  const auto loops = contour_loops(grid_of([](double x, double y) { return std::abs(std::hypot(x, y) - 0.6); }), 0.2);
  ASSERT_EQ(loops.size(), 2u);
  const double a = area(loops[0]), b = area(loops[1]);
  EXPECT_NEAR(std::abs(a - b), M_PI * (0.64 - 0.16), 0.05);
}

TEST(Contour, NothingBelowTheLowestAndEverythingBelowTheHighest) {
  const Contours grid = grid_of([](double x, double y) { return x * y; });
  EXPECT_TRUE(contour_loops(grid, -2).empty());
  const auto all = contour_loops(grid, 2);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_NEAR(area(all[0]), 4, 1e-9);
}

TEST(Contour, SaddleCellsKeepLoopsClosed) {
  // A chessboard: every cell is a saddle.
  const Contours grid = grid_of([](double x, double y) { return std::lround((x + y) * 2) % 2 == 0 ? 1.0 : 0.0; }, 5);
  double total = 0;
  for (const auto& loop : contour_loops(grid, 0.4)) {
    EXPECT_GE(loop.size(), 3u);
    total += area(loop);
  }
  EXPECT_GT(total, 0.1);
}

}  // namespace
}  // namespace covnoise::plot
