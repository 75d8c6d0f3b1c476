#pragma once
#include "plot/canvas/canvas.h"

namespace covnoise::plot {

/// A white card with a frame looks the same on paper, on a light page and on a dark page.
constexpr Color kCard{255, 255, 255}, kCardFrame{208, 213, 221};
constexpr Color kInk{24, 28, 36}, kSoftInk{84, 92, 105}, kGrid{232, 235, 240}, kFrame{150, 157, 168};
constexpr double kTitleSize = 16, kSubtitleSize = 12, kPanelTitleSize = 13, kLabelSize = 12, kTickSize = 11,
                 kLegendSize = 11.5;

/// Colours that remain distinct with the common kinds of colour blindness (after Okabe and Ito, the light ones darkened
/// for a white background), then grey.
inline Color palette(int index) {
  static constexpr Color kPalette[] = {{0, 105, 176}, {213, 84, 0},   {0, 140, 100}, {166, 70, 135},
                                       {190, 135, 0}, {70, 165, 220}, {40, 40, 50},  {125, 132, 143}};
  return kPalette[index < 0 ? kGray : index % (kColors + 1)];
}

inline Dash dash_of(const Style& style) {
  static constexpr Dash kDashes[] = {Dash::kSolid, Dash::kDashed, Dash::kDashDotted, Dash::kDotted};
  if (style.dash != Dash::kAuto) return style.dash;
  return style.color < 0 || style.color >= kColors ? Dash::kSolid : kDashes[style.color % 4];
}

inline Marker marker_of(const Style& style) {
  static constexpr Marker kMarkers[kColors + 1] = {Marker::kCircle,  Marker::kSquare, Marker::kTriangle,
                                                   Marker::kDiamond, Marker::kCross,  Marker::kTriangleDown,
                                                   Marker::kPlus,    Marker::kStar};
  if (style.marker != Marker::kAuto) return style.marker;
  return kMarkers[style.color < 0 ? kGray : style.color % (kColors + 1)];
}

inline Color color_of(const Style& style) { return palette(style.color).faded(style.opacity); }

}  // namespace covnoise::plot
