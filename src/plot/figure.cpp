#include "covnoise/plot/figure.h"

#include "covnoise/core/internal/file.h"
#include "plot/canvas/text_width.h"
#include "plot/colors.h"
#include "plot/layers.h"
#include "plot/layout/axes.h"
#include "plot/layout/legend.h"
#include "plot/theme.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace covnoise::plot {
namespace {

constexpr double kMargin = 20, kBetweenColumns = 26, kBetweenRows = 22, kRightSlack = 10;
constexpr double kBold = 1.08;  // how much wider bold text is

/// Lays out the figure: panels of a column share their left margin, panels of a row the space above them.
class Layout {
 public:
  explicit Layout(const Figure& figure) : figure_(figure) {
    TORCH_CHECK(!figure.panels.empty() && figure.columns > 0, "a figure needs panels and columns");
    for (const auto& panel : figure.panels) {
      views_.push_back(make_view(panel, figure.panel_width, panel.height.value_or(figure.panel_height)));
      titles_.push_back(wrap_text(panel.title, kPanelTitleSize * kBold, figure.panel_width));
      legends_.push_back(figure.shared_legend ? std::vector<LegendEntry>{} : legend_entries({panel}));
    }
    if (figure.shared_legend) shared_legend_ = legend_entries(figure.panels);
    place_columns();
    place_rows();
  }

  double width() const { return width_; }
  double height() const { return height_; }

  void draw(Canvas& canvas) const {
    canvas.rectangle({0.5, 0.5, width_ - 1, height_ - 1}, 10, {kCard, Stroke{kCardFrame, 1}});
    draw_head(canvas);
    for (std::size_t i = 0; i < views_.size(); ++i) draw_panel(canvas, i);
  }

 private:
  std::size_t columns() const { return std::min(views_.size(), static_cast<std::size_t>(figure_.columns)); }

  void place_columns() {
    double x = kMargin;
    for (std::size_t column = 0; column < columns(); ++column) {
      double margin = 0;
      for (std::size_t i = column; i < views_.size(); i += columns()) margin = std::max(margin, left_margin(views_[i]));
      for (std::size_t i = column; i < views_.size(); i += columns()) views_[i].area.x = x + margin;
      x += margin + figure_.panel_width + kBetweenColumns;
    }
    width_ = x - kBetweenColumns + kRightSlack + kMargin;
    title_ = wrap_text(figure_.title, kTitleSize * kBold, width_ - 2 * kMargin);
    subtitle_ = wrap_text(figure_.subtitle, kSubtitleSize, width_ - 2 * kMargin);
  }

  void place_rows() {
    double y = kMargin + title_height() + static_cast<double>(subtitle_.size()) * (kSubtitleSize + 4);
    shared_top_ = y;
    y += legend_height(shared_legend_, width_ - 2 * kMargin) + (subtitle_.empty() && figure_.title.empty() ? 0 : 8) +
         (shared_legend_.empty() ? 0 : 8);
    for (std::size_t first = 0; first < views_.size(); first += columns()) {
      const std::size_t end = std::min(views_.size(), first + columns());
      double above = 0, below = 0;
      for (std::size_t i = first; i < end; ++i) {
        above = std::max(above, height_above(i));
        below = std::max(below, views_[i].area.height + bottom_margin(views_[i]));
      }
      for (std::size_t i = first; i < end; ++i) views_[i].area.y = y + above;
      y += above + below + kBetweenRows;
    }
    height_ = y - kBetweenRows + kMargin;
  }

  double title_height() const { return title_.empty() ? 0 : static_cast<double>(title_.size()) * (kTitleSize + 4) + 4; }

  double height_above(std::size_t i) const {
    const double legend = legend_height(legends_[i], figure_.panel_width);
    const double titles = static_cast<double>(titles_[i].size()) * (kPanelTitleSize + 4);
    return (titles > 0 ? titles + 5 : 0) + (legend > 0 ? legend + 5 : 0);
  }

  void draw_head(Canvas& canvas) const {
    double y = kMargin;
    for (const auto& line : title_) {
      canvas.text({kMargin, y + kTitleSize}, line, {kTitleSize, kInk, Anchor::kStart, true});
      y += kTitleSize + 4;
    }
    if (!title_.empty()) y += 4;
    for (const auto& line : subtitle_) {
      canvas.text({kMargin, y + kSubtitleSize}, line, {kSubtitleSize, kSoftInk});
      y += kSubtitleSize + 4;
    }
    draw_legend(canvas, shared_legend_, {kMargin, shared_top_ + 4}, width_ - 2 * kMargin);
  }

  void draw_panel(Canvas& canvas, std::size_t i) const {
    const View& view = views_[i];
    double y = view.area.y - height_above(i);
    for (const auto& line : titles_[i]) {
      canvas.text({view.area.x, y + kPanelTitleSize}, line, {kPanelTitleSize, kInk, Anchor::kStart, true});
      y += kPanelTitleSize + 4;
    }
    if (!titles_[i].empty()) y += 5;
    draw_legend(canvas, legends_[i], {view.area.x, y}, figure_.panel_width);
    draw_grid(canvas, view);
    canvas.begin_clip(view.area);
    draw_layers(canvas, view);
    canvas.end_clip();
    draw_axes(canvas, view);
  }

  const Figure& figure_;
  std::vector<View> views_;
  std::vector<std::vector<LegendEntry>> legends_;
  std::vector<std::vector<std::string>> titles_;
  std::vector<LegendEntry> shared_legend_;
  std::vector<std::string> title_, subtitle_;
  double width_ = 0, height_ = 0, shared_top_ = 0;
};

}  // namespace

std::string to_svg(const Figure& figure) {
  const Figure colored = with_colors(figure);
  const Layout layout(colored);
  const auto canvas = make_svg_canvas(layout.width(), layout.height(), figure.title);
  layout.draw(*canvas);
  return canvas->bytes();
}

bool png_available() { return make_png_canvas(1, 1, 1) != nullptr; }

std::string to_png(const Figure& figure, double scale) {
  const Figure colored = with_colors(figure);
  const Layout layout(colored);
  const auto canvas = require_png_canvas(layout.width(), layout.height(), scale);
  layout.draw(*canvas);
  return canvas->bytes();
}

std::vector<std::filesystem::path> save_figure(const Figure& figure, const std::filesystem::path& stem,
                                               Formats formats) {
  const auto with = [&](const char* extension) { return std::filesystem::path(stem.string() + extension); };
  std::vector<std::filesystem::path> paths{with(".svg")};
  write_file_synced(paths.back(), to_svg(figure));
  if (formats == Formats::kSvgAndPng && png_available()) {
    paths.push_back(with(".png"));
    write_file_synced(paths.back(), to_png(figure));
  }
  return paths;
}

}  // namespace covnoise::plot
