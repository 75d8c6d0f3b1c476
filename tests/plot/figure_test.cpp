#include "covnoise/plot/figure.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "plot/canvas/text_width.h"
#include "plot/colors.h"
#include "plot/theme.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>
#include <set>
#include <tuple>

namespace covnoise::plot {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Figure one_of_each() {
  Panel lines{"Lines", {"step", Scale::kLog}, {"loss", Scale::kLog}};
  lines.layers = {Line{"a < b & c", {1, 10, 100}, {3, 2, 1}, {2, 1, 0.5}, {4, 3, 2}}, Rule{"limit", {}, 2.0},
                  Points{"seen", {1, 10}, {2, 3}, {0.1, 5}}};
  Panel bars{"Bars", {}, {"accuracy [%]"}};
  bars.x.categories = {"sb", "lb"};
  bars.layers = {Bars{"test", {90, 80}, {1, 2}, {"90", "80"}}};
  Panel plane{"Plane", {"x"}, {"y"}, {}, true};
  plane.layers = {Contours{{0, 1, 2}, {0, 1}, {0, 1, 2, 1, 2, 3}, {0.5, 1.5}},
                  Ellipse{"2σ", {1, 0.5}, {0.1, 0.02, 0.1}}, Note{1, 0.5, "here"}};
  Figure figure{"Everything", "and a subtitle", {lines, bars, plane}, 2};
  return figure;
}

/// Every element is closed, in the right order.
void expect_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  const std::regex tag("<(/?)([a-zA-Z]+)[^<>]*?(/?)>");
  for (std::sregex_iterator it(svg.begin(), svg.end(), tag), end; it != end; ++it) {
    if ((*it)[1].length() > 0) {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(open.back(), (*it)[2].str());
      open.pop_back();
    } else if ((*it)[3].length() == 0) {
      open.push_back((*it)[2].str());
    }
  }
  EXPECT_TRUE(open.empty());
}

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(Figure, SvgIsWellFormedAndItsTextIsText) {
  const std::string svg = to_svg(one_of_each());
  expect_well_formed(svg);
  for (const char* text : {">Everything<", ">and a subtitle<", ">accuracy [%]<", ">a &lt; b &amp; c<", ">seen<", ">2σ<",
                           ">here<", ">100<", ">lb<"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
}

TEST(Figure, ATitleThatIsTooLongIsWrapped) {
  Figure figure = one_of_each();
  figure.title = "A title that is longer than its only panel is wide";
  figure.panels.resize(1);
  figure.columns = 1;
  figure.panel_width = 200;
  const std::string svg = to_svg(figure);
  EXPECT_THAT(svg, HasSubstr(">A title that"));
  EXPECT_THAT(svg, HasSubstr(" wide</text>"));
  EXPECT_THAT(svg, Not(HasSubstr(figure.title + "</text>")));
  expect_well_formed(svg);
}

TEST(Figure, NothingThatIsNotANumberReachesTheFile) {
  Figure figure = one_of_each();
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  figure.panels[0].layers.push_back(Line{"holes", {1, 2, 3, 4, 5}, {1, nan, -1, inf, 2}, {}, {}});
  figure.panels[0].layers.push_back(Points{"bad", {nan, 0, 2}, {1, 1, 1}, {}});
  const std::string svg = to_svg(figure);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  expect_well_formed(svg);
}

TEST(Figure, EmptyPanelsAndSinglePointsHaveARange) {
  for (const Scale scale : {Scale::kLinear, Scale::kLog}) {
    Panel empty{"empty", {"x", scale}, {"y", scale}}, single = empty;
    single.layers = {Points{"p", {3}, {7}}};
    Panel missing{"missing", {"x"}, {"y"}};
    missing.x.categories = {"a"};
    missing.y.min = 0;
    missing.layers = {Bars{"b", {std::nan("")}}};
    const std::string svg = to_svg(Figure{"", "", {empty, single, missing}, 1});
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("92233720")));  // what a number that is none rounds to
    expect_well_formed(svg);
  }
}

TEST(Figure, SameNameHasTheSameColorAndOneLegendEntry) {
  Panel panel{"", {"x"}, {"y"}};
  panel.layers = {Line{"first", {0, 1}, {0, 1}}, Line{"second", {0, 1}, {1, 0}}, Points{"first", {0.5}, {0.5}}};
  const std::string svg = to_svg(Figure{"", "", {panel, panel}, 2, 300, 200, true});
  EXPECT_EQ(count_of(svg, ">first</text>"), 1u);
  EXPECT_EQ(count_of(svg, "#0069b0"), 6u);  // line and point in two panels, line and point in the legend
}

/// Eight named series in one panel: what the palette has, and one more.
TEST(Figure, NoTwoSeriesShareColorAndMarker) {
  Panel panel{"", {"x"}, {"y"}};
  for (int i = 0; i < kColors + 1; ++i) panel.layers.push_back(Points{std::string(1, char('a' + i)), {1}, {2}});
  std::get<Points>(panel.layers[3]).style.color = 0;  // asked for, so that no other series gets it
  const Figure figure = with_colors(Figure{"", "", {panel}});
  const auto& layers = figure.panels[0].layers;
  std::set<std::tuple<Marker, int, bool>> looks;
  std::set<std::pair<Marker, bool>> shapes;
  for (const auto& layer : layers) {
    const Style& style = std::get<Points>(layer).style;
    looks.emplace(marker_of(style), style.color, style.hollow);
    shapes.emplace(marker_of(style), style.hollow);
  }
  EXPECT_EQ(looks.size(), layers.size());
  EXPECT_EQ(shapes.size(), layers.size());
}

TEST(Figure, AnIntervalEndsInACapOrLeavesThePanelByAnArrow) {
  const auto svg_of = [](double low) {
    Panel panel{"", {"x"}, {}};
    panel.x.min = 0;
    panel.x.max = 10;
    panel.y.categories = {"first", "second"};
    panel.layers = {Intervals{"i", {5}, {0}, {low}, {8}}};
    return to_svg(Figure{"", "", {panel}});
  };
  const std::string inside = svg_of(2);
  EXPECT_THAT(inside, HasSubstr(">second<"));
  EXPECT_LT(inside.find(">first<"), inside.find(">second<"));
  EXPECT_EQ(svg_of(-2), svg_of(-200)) << "both leave the panel at the same place";
  EXPECT_NE(svg_of(0), svg_of(-2)) << "an end at the edge has a cap";
}

TEST(Figure, WithoutAnIntervalThereIsNoBarAndTheMarkerMayBeHollow) {
  const auto svg_of = [](double low, double high, bool hollow) {
    Panel panel{"", {"x"}, {"y"}};
    panel.x.min = panel.y.min = 0;
    panel.x.max = panel.y.max = 10;
    Intervals intervals{"", {5}, {5}, {low}, {high}};
    intervals.style.color = 0;
    intervals.style.hollow = hollow;
    panel.layers = {intervals};
    return to_svg(Figure{"", "", {panel}});
  };
  const double nan = std::nan("");
  const std::string color = "#0069b0";
  EXPECT_EQ(count_of(svg_of(4, 6, false), color), 2u);  // bar and marker
  EXPECT_EQ(count_of(svg_of(nan, nan, false), color), 1u);
  EXPECT_THAT(svg_of(nan, nan, false), HasSubstr("fill=\"" + color));
  EXPECT_THAT(svg_of(nan, nan, true), HasSubstr("stroke=\"" + color));
  EXPECT_THAT(svg_of(nan, nan, true), Not(HasSubstr("fill=\"" + color)));
}

TEST(Figure, PngHasTheSizeOfTheSvgTimesTheScale) {
  if (!png_available()) {
    EXPECT_THROW(to_png(one_of_each()), Error);
    return;
  }
  const std::string png = to_png(one_of_each(), 2), svg = to_svg(one_of_each());
  ASSERT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  const auto big_endian = [&](std::size_t at) {
    int value = 0;
    for (std::size_t i = at; i < at + 4; ++i) value = 256 * value + static_cast<unsigned char>(png[i]);
    return value;
  };
  std::smatch size;
  ASSERT_TRUE(std::regex_search(svg, size, std::regex("width=\"([0-9.]+)\" height=\"([0-9.]+)\"")));
  EXPECT_NEAR(big_endian(16), 2 * std::stod(size[1]), 1);
  EXPECT_NEAR(big_endian(20), 2 * std::stod(size[2]), 1);
}

TEST(Figure, PanelsMayHaveHeightsOfTheirOwn) {
  const auto height = [](const Figure& figure) {
    const std::string svg = to_svg(figure), key = " height=\"";
    return std::stod(svg.substr(svg.find(key) + key.size()));
  };
  Figure lower = one_of_each(), own = one_of_each();
  lower.panel_height -= 100;
  for (auto& panel : own.panels) panel.height = lower.panel_height;
  EXPECT_EQ(to_svg(own), to_svg(lower));
  own.panels[1].height.reset();  // in two columns it is beside Lines and above Plane
  EXPECT_GT(height(own), height(lower) + 50);
  EXPECT_LT(height(own), height(one_of_each()) - 50);
}

TEST(Figure, SavesWhatItCanDraw) {
  const testing::TemporaryFolder folder;
  const auto paths = save_figure(one_of_each(), folder / "figure");
  EXPECT_EQ(paths.size(), png_available() ? 2u : 1u);
  EXPECT_EQ(read_file(folder / "figure.svg"), to_svg(one_of_each()));
  save_figure(one_of_each(), folder / "vectors", Formats::kSvg);
  EXPECT_TRUE(std::filesystem::exists(folder / "vectors.svg"));
  EXPECT_FALSE(std::filesystem::exists(folder / "vectors.png"));
}

TEST(Figure, TextWrapsAtSpaces) {
  const auto lines = wrap_text("one two three four five six", 12, 80);
  EXPECT_GT(lines.size(), 2u);
  std::string joined;
  for (const auto& line : lines) {
    EXPECT_LE(text_width(line, 12), 80);
    joined += (joined.empty() ? "" : " ") + line;
  }
  EXPECT_EQ(joined, "one two three four five six");
  EXPECT_EQ(wrap_text("unbreakable", 12, 5).size(), 1u);
  EXPECT_TRUE(wrap_text("", 12, 50).empty());
}

}  // namespace
}  // namespace covnoise::plot
