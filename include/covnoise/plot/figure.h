#pragma once
#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

/// Figures as plain data: say what is to be seen, then save it. Drawn as SVG (text stays text) and as PNG.
namespace covnoise::plot {

enum class Scale { kLinear, kLog };

/// One axis of a panel.
struct Axis {
  std::string label = {};                    ///< with its unit in brackets, where it has one
  Scale scale = Scale::kLinear;              ///< a logarithmic axis leaves out what is not positive
  std::optional<double> min = {}, max = {};  ///< default: what the data need, and a margin
  std::vector<std::string> categories = {};  ///< names at 0, 1, 2, ... instead of numbers: the x axis of bars
};

enum class Dash { kAuto, kSolid, kDashed, kDotted, kDashDotted };  ///< kAuto: one for each colour
enum class Marker { kAuto, kNone, kCircle, kSquare, kTriangle, kDiamond, kCross };

/// How a series looks. Colours are indices of a palette that colour-blind people can tell apart.
struct Style {
  int color = -1;  ///< 0 to kColors - 1; -1: the panel's next one, kGray: grey
  double width = 1.8;
  Dash dash = Dash::kAuto;
  Marker marker = Marker::kAuto;  ///< kAuto: none on lines, one for each colour on points
  double size = 3.2;              ///< radius of a marker
  double opacity = 1;
};
constexpr int kColors = 7;
constexpr int kGray = 7;

/// y over x; a value that is not finite interrupts it. `low` and `high`, where given, shade a band.
struct Line {
  std::string name = {};  ///< in the legend; empty: not there. So for every kind of series.
  std::vector<double> x = {}, y = {}, low = {}, high = {};
  Style style = {};
};

/// Single points or a cloud; `error`, where given, is half the height of an error bar.
struct Points {
  std::string name = {};
  std::vector<double> x = {}, y = {}, error = {};
  Style style = {};
};

/// One bar for each category; several Bars of a panel stand side by side.
struct Bars {
  std::string name = {};
  std::vector<double> values = {}, error = {};  ///< `error`: half the height of an error bar
  std::vector<std::string> labels = {};         ///< written above the bars
  Style style = {};
};

/// Lines of equal height of a function on a grid, the bands between them tinted where `filled`.
struct Contours {
  std::vector<double> x, y;    ///< ascending
  std::vector<double> values;  ///< [y, x]: value at (x[i], y[j]) is values[j * x.size() + i]
  std::vector<double> levels;  ///< ascending
  bool filled = true;
};

/// Where a Gaussian is `radius` standard deviations away from its mean.
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

/// A few words beside a point.
struct Note {
  double x = 0, y = 0;
  std::string text = {};
};

using Layer = std::variant<Contours, Bars, Line, Points, Ellipse, Rule, Note>;

/// Layers are drawn in their order. The legend stands above the plot and never covers it.
struct Panel {
  std::string title = {};
  Axis x = {}, y = {};
  std::vector<Layer> layers = {};
  bool equal_scales = false;  ///< one unit is as long on x as on y
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

/// Whether this build can draw PNG (it has cairo).
bool png_available();
/// The bytes of a PNG, `scale` pixels a unit; an Error where png_available() is false.
std::string to_png(const Figure& figure, double scale = 2);

/// Writes `stem`.svg and, where available, `stem`.png; returns the paths written.
std::vector<std::filesystem::path> save_figure(const Figure& figure, const std::filesystem::path& stem);

}  // namespace covnoise::plot
