// Lines of ink on a small grey picture.
#pragma once
#include "datasets/procedural/procedural.h"

#include <array>
#include <vector>

namespace covnoise {

/// A pen's path in the unit square, x to the right, y down. A smooth one is the Catmull-Rom spline through its points.
struct Stroke {
  std::vector<Point> points;
  bool smooth = false;
};

/// The path as a polyline that is fine enough to be warped.
std::vector<Point> flatten(const Stroke& stroke);

/// Draws on pictures of kSide x kSide grey values; pixel (row, column) covers [column, column + 1) x [row, row + 1).
class Pen {
 public:
  static constexpr int kSide = 28;
  using Plane = std::array<float, std::size_t{kSide} * kSide>;

  Pen();
  /// Adds a line between two points to the path that the next ink() follows.
  void line(Point a, Point b);
  void path(const std::vector<Point>& points);
  /// Draws the path with a round pen, anti-aliased: the coverage of a pixel at distance d is clamp(radius - d + 1/2).
  /// Then starts a new path.
  void ink(float radius, float value, Plane& picture);

 private:
  Plane squared_distance_;  // of each pixel's centre from the path
};

}  // namespace covnoise
