#include "datasets/procedural/strokes.h"

#include <c10/util/Exception.h>

#include <cmath>

namespace covnoise {
namespace {

constexpr int kPieces = 5;  // of each span between two points
constexpr float kFar = 1e9f;
constexpr float kReach = 3.0f;  // pixels: no pen reaches further

/// The pixels whose centres may lie in [low - reach, high + reach], clipped to the picture.
struct Range {
  int begin, end;
  Range(float a, float b) : begin(cut((a < b ? a : b) - kReach)), end(cut((a < b ? b : a) + kReach + 1.0f)) {}
  static int cut(float x) { return x < 0.0f ? 0 : (x > Pen::kSide ? Pen::kSide : static_cast<int>(x)); }
};

Point mix(Point a, Point b, float t) { return {a.x + t * (b.x - a.x), a.y + t * (b.y - a.y)}; }

float catmull_rom(float p0, float p1, float p2, float p3, float t) {
  const float a = 0.5f * (p2 - p0);
  const float b = p0 - 2.5f * p1 + 2.0f * p2 - 0.5f * p3;
  const float c = 0.5f * (p3 - p0) + 1.5f * (p1 - p2);
  return p1 + t * (a + t * (b + t * c));
}

}  // namespace

std::vector<Point> flatten(const Stroke& stroke) {
  const std::vector<Point>& p = stroke.points;
  std::vector<Point> path{p.front()};
  for (std::size_t i = 0; i + 1 < p.size(); ++i) {
    const Point before = i == 0 ? p[0] : p[i - 1];
    const Point after = i + 2 < p.size() ? p[i + 2] : p[i + 1];
    for (int k = 1; k <= kPieces; ++k) {
      const float t = static_cast<float>(k) / kPieces;
      path.push_back(stroke.smooth ? Point{catmull_rom(before.x, p[i].x, p[i + 1].x, after.x, t),
                                           catmull_rom(before.y, p[i].y, p[i + 1].y, after.y, t)}
                                   : mix(p[i], p[i + 1], t));
    }
  }
  return path;
}

Pen::Pen() { squared_distance_.fill(kFar); }

void Pen::line(Point a, Point b) {
  const float ux = b.x - a.x, uy = b.y - a.y;
  const float length_squared = ux * ux + uy * uy;
  const float inverse = length_squared > 0.0f ? 1.0f / length_squared : 0.0f;
  const Range rows(a.y, b.y), columns(a.x, b.x);
  for (int row = rows.begin; row < rows.end; ++row) {
    const float dy = static_cast<float>(row) + 0.5f - a.y;
    float* distance = &squared_distance_[static_cast<std::size_t>(row) * kSide];
    for (int column = columns.begin; column < columns.end; ++column) {
      const float dx = static_cast<float>(column) + 0.5f - a.x;
      const float t = clamp_unit((dx * ux + dy * uy) * inverse);
      const float ex = dx - t * ux, ey = dy - t * uy;
      const float squared = ex * ex + ey * ey;
      distance[column] = squared < distance[column] ? squared : distance[column];
    }
  }
}

void Pen::path(const std::vector<Point>& points) {
  for (std::size_t i = 0; i + 1 < points.size(); ++i) line(points[i], points[i + 1]);
}

void Pen::ink(float radius, float value, Plane& picture) {
  TORCH_INTERNAL_ASSERT(radius + 0.5f <= kReach);
  for (std::size_t i = 0; i < picture.size(); ++i) {
    const float coverage = clamp_unit(radius + 0.5f - std::sqrt(squared_distance_[i]));
    picture[i] += coverage * (value - picture[i]);
  }
  squared_distance_.fill(kFar);
}

}  // namespace covnoise
