#pragma once
#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

/// Figures as plain data, drawn as SVG (text remains text) and as PNG.
namespace covnoise::plot {

enum class Scale { kLinear, kLog };

/// One axis of a panel.
struct Axis {
  std::string label = {};                    ///< with its unit, if any, in brackets
  Scale scale = Scale::kLinear;              ///< a logarithmic axis omits values that are not positive
  std::optional<double> min = {}, max = {};  ///< default: the range of the data and a margin
  /// Names at 0, 1, 2, ... instead of numbers, from left to right or from top to bottom.
  std::vector<std::string> categories = {};
};

enum class Dash { kAuto, kSolid, kDashed, kDotted, kDashDotted };  ///< kAuto: by colour
enum class Marker {
  kAuto,  ///< none on lines; on points by colour, a different one for each
  kNone,
  kCircle,
  kSquare,
  kTriangle,
  kDiamond,
  kCross,
  kTriangleDown,
  kPlus,
  kStar
};

/// The look of a series. Colours are indices of a palette that colour-blind people can tell apart.
struct Style {
  int color = -1;  ///< 0 to kColors - 1, or kGray; -1: the panel's next unused colour
  double width = 1.8;
  Dash dash = Dash::kAuto;
  Marker marker = Marker::kAuto;
  double size = 3.2;  ///< radius of a marker
  double opacity = 1;
  bool hollow = false;  ///< markers are outlines
};
constexpr int kColors = 7;
constexpr int kGray = 7;

/// y over x, interrupted at values that are not finite. `low` and `high`, if given, are the limits of a shaded band.
struct Line {
  std::string name = {};  ///< in the legend; empty: no entry. The same for every kind of series.
  std::vector<double> x = {}, y = {}, low = {}, high = {};
  Style style = {};
};

/// Single points or a cloud; `error`, if given and not NaN, is half the height of an error bar. A bar that leaves the
/// panel ends in an arrow.
struct Points {
  std::string name = {};
  std::vector<double> x = {}, y = {}, error = {};
  Style style = {};
};

/// Estimates x at the heights y with horizontal intervals from `low` to `high`, as in a forest plot; NaN: no interval.
/// An interval that leaves the panel ends in an arrow.
struct Intervals {
  std::string name = {};
  std::vector<double> x = {}, y = {}, low = {}, high = {};
  Style style = {};
};

/// One bar per category; several Bars of a panel are drawn side by side.
struct Bars {
  std::string name = {};
  std::vector<double> values = {}, error = {};  ///< `error`: half the height of an error bar
  std::vector<std::string> labels = {};         ///< written above the bars
  Style style = {};
};

/// Contour lines of a function on a grid; if `filled`, the bands between them are tinted.
struct Contours {
  std::vector<double> x, y;    ///< ascending
  std::vector<double> values;  ///< [y, x]: value at (x[i], y[j]) is values[j * x.size() + i]
  std::vector<double> levels;  ///< ascending
  bool filled = true;
};

/// The points `radius` standard deviations away from the mean of a Gaussian.
struct Ellipse {
  std::string name = {};
  std::array<double, 2> center{};
  std::array<double, 3> covariance{};  ///< xx, xy, yy
  double radius = 2;
  Style style = {};
};

/// A straight line through the whole panel at y (horizontal) or x (vertical).
struct Rule {
  std::string name = {};
  std::optional<double> x = {}, y = {};
  Style style = {};
};

/// A short text beside a point.
struct Note {
  double x = 0, y = 0;
  std::string text = {};
};

using Layer = std::variant<Contours, Bars, Line, Points, Intervals, Ellipse, Rule, Note>;

/// Layers are drawn in order. The legend is above the plot and never covers it.
struct Panel {
  std::string title = {};
  Axis x = {}, y = {};
  std::vector<Layer> layers = {};
  bool equal_scales = false;          ///< one unit has the same length on both axes
  std::optional<double> height = {};  ///< of its plot area, instead of the figure's panel_height
};

/// Panels under a title.
struct Figure {
  std::string title, subtitle;  ///< the subtitle is wrapped to the figure's width
  std::vector<Panel> panels;    ///< row by row
  int columns = 1;
  double panel_width = 440, panel_height = 300;  ///< of the plot area of each panel, in pixels
  bool shared_legend = false;                    ///< one legend, above all panels
};

std::string to_svg(const Figure& figure);

/// Whether covnoise was built with cairo, which draws PNG.
bool png_available();
/// The bytes of a PNG with `scale` pixels per unit; an Error if png_available() is false.
std::string to_png(const Figure& figure, double scale = 2);

enum class Formats { kSvg, kSvgAndPng };  ///< PNG only if png_available()

/// Writes `stem`.svg and, if requested and available, `stem`.png; returns the paths written.
std::vector<std::filesystem::path> save_figure(const Figure& figure, const std::filesystem::path& stem,
                                               Formats formats = Formats::kSvgAndPng);

}  // namespace covnoise::plot
