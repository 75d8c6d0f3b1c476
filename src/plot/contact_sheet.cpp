#include "covnoise/plot/internal/contact_sheet.h"

#include "plot/canvas/canvas.h"
#include "plot/canvas/text_width.h"
#include "plot/theme.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

namespace covnoise::plot {
namespace {

constexpr double kSheetMargin = 20, kSheetGap = 6, kTile = 80, kPngScale = 2;

/// Positions of everything on a sheet.
class SheetLayout {
 public:
  explicit SheetLayout(const ContactSheet& sheet) : sheet_(sheet) {
    const auto row =
        std::find_if(sheet.rows.begin(), sheet.rows.end(), [](const auto& r) { return !r.images.empty(); });
    TORCH_CHECK(row != sheet.rows.end(), "a contact sheet needs images");
    const Image& first = row->images[0];
    // A whole number of the PNG's pixels per pixel of an image: none is wider than another.
    const double pixel = std::max(1.0, std::round(kTile * kPngScale / first.width)) / kPngScale;
    tile_ = {0, 0, first.width * pixel, first.height * pixel};
    double names = 0;
    std::size_t columns = 0;
    for (const auto& each : sheet.rows) {
      names = std::max(names, text_width(each.name, kLabelSize));
      columns = std::max(columns, each.images.size());
    }
    const double header =
        std::max(text_width(sheet.title, kTitleSize, true), text_width(sheet.subtitle, kSubtitleSize));
    row_height_ = std::max(tile_.height, kLabelSize) + kSheetGap;
    left_ = kSheetMargin + std::ceil(names) + 2 * kSheetGap;
    top_ = kSheetMargin + kTitleSize + kSubtitleSize + 4 * kSheetGap;
    width_ = std::max(left_ + static_cast<double>(columns) * (tile_.width + kSheetGap) - kSheetGap,
                      kSheetMargin + std::ceil(header)) +
             kSheetMargin;
    height_ = top_ + static_cast<double>(sheet.rows.size()) * row_height_ - kSheetGap + kSheetMargin;
  }

  double width() const { return width_; }
  double height() const { return height_; }

  void draw(Canvas& canvas) const {
    canvas.rectangle({0.5, 0.5, width_ - 1, height_ - 1}, 10, {kCard, Stroke{kCardFrame, 1}});
    double y = kSheetMargin + kTitleSize;
    canvas.text({kSheetMargin, y}, sheet_.title, {kTitleSize, kInk, Anchor::kStart, true});
    y += kSheetGap + kSubtitleSize;
    canvas.text({kSheetMargin, y}, sheet_.subtitle, {kSubtitleSize, kSoftInk});
    for (std::size_t i = 0; i < sheet_.rows.size(); ++i) {
      draw_row(canvas, sheet_.rows[i], top_ + static_cast<double>(i) * row_height_);
    }
  }

 private:
  void draw_row(Canvas& canvas, const ContactSheet::Row& row, double top) const {
    constexpr double kHalfCapital = 0.36;  // of the font size: centres capitals beside the tiles
    canvas.text({left_ - 2 * kSheetGap, top + tile_.height / 2 + kHalfCapital * kLabelSize}, row.name,
                {kLabelSize, kInk, Anchor::kEnd});
    for (std::size_t i = 0; i < row.images.size(); ++i) {
      const double left = left_ + static_cast<double>(i) * (tile_.width + kSheetGap);
      canvas.rectangle({left - 0.5, top - 0.5, tile_.width + 1, tile_.height + 1}, 0, {kCardFrame, {}});
      canvas.image({left, top, tile_.width, tile_.height}, row.images[i]);
    }
  }

  const ContactSheet& sheet_;
  Rect tile_{};
  double row_height_ = 0, left_ = 0, top_ = 0, width_ = 0, height_ = 0;
};

}  // namespace

std::string to_svg(const ContactSheet& sheet) {
  const SheetLayout layout(sheet);
  const auto canvas = make_svg_canvas(layout.width(), layout.height(), sheet.title);
  layout.draw(*canvas);
  return canvas->bytes();
}

std::string to_png(const ContactSheet& sheet) {
  const SheetLayout layout(sheet);
  const auto canvas = require_png_canvas(layout.width(), layout.height(), kPngScale);
  layout.draw(*canvas);
  return canvas->bytes();
}

}  // namespace covnoise::plot
