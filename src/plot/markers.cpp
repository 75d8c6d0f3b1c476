#include "plot/markers.h"

#include "plot/theme.h"

#include <cmath>

namespace covnoise::plot {
namespace {

/// Five points, the first one up.
Polyline star() {
  Polyline corners;
  for (int i = 0; i < 10; ++i) {
    const double angle = i * (3.14159265358979323846 / 5), radius = i % 2 == 0 ? 1.4 : 0.6;
    corners.push_back({radius * std::sin(angle), -radius * std::cos(angle)});
  }
  return corners;
}

/// The corners of one marker of radius 1.
Polyline marker_shape(Marker marker) {
  switch (marker) {
    case Marker::kSquare:
      return {{-0.9, -0.9}, {0.9, -0.9}, {0.9, 0.9}, {-0.9, 0.9}};
    case Marker::kTriangle:
      return {{0, -1.15}, {1.05, 0.8}, {-1.05, 0.8}};
    case Marker::kDiamond:
      return {{0, -1.25}, {1.25, 0}, {0, 1.25}, {-1.25, 0}};
    case Marker::kCross:
      return {{-1.1, -0.5}, {-0.5, -1.1}, {0, -0.55}, {0.5, -1.1}, {1.1, -0.5}, {0.55, 0},
              {1.1, 0.5},   {0.5, 1.1},   {0, 0.55},  {-0.5, 1.1}, {-1.1, 0.5}, {-0.55, 0}};
    case Marker::kTriangleDown:
      return {{0, 1.15}, {1.05, -0.8}, {-1.05, -0.8}};
    case Marker::kPlus:
      return {{-0.4, -1.2}, {0.4, -1.2}, {0.4, -0.4}, {1.2, -0.4}, {1.2, 0.4},   {0.4, 0.4},
              {0.4, 1.2},   {-0.4, 1.2}, {-0.4, 0.4}, {-1.2, 0.4}, {-1.2, -0.4}, {-0.4, -0.4}};
    case Marker::kStar:
      return star();
    default:
      return {};
  }
}

}  // namespace

void draw_markers(Canvas& canvas, const Polyline& centers, const Style& style) {
  // A thin white rim separates neighbours; clouds of small translucent points have none.
  const bool cloud = style.opacity < 1;
  const Paint full{color_of(style), cloud ? std::nullopt : std::optional<Stroke>(Stroke{kCard, 0.6})};
  const Paint paint = style.hollow ? Paint{kCard, Stroke{color_of(style), 1.3}} : full;
  const Marker marker = marker_of(style);
  if (marker == Marker::kNone || centers.empty()) return;
  if (marker == Marker::kCircle) return canvas.circles(centers, style.size, paint);
  std::vector<Polyline> shapes;
  for (const auto& center : centers) {
    Polyline shape = marker_shape(marker);
    for (auto& point : shape) point = {center.x + style.size * point.x, center.y + style.size * point.y};
    shapes.push_back(std::move(shape));
  }
  for (const auto& shape : shapes) canvas.path({shape}, true, paint);
}

}  // namespace covnoise::plot
