#include "covnoise/datasets/preview.h"

#include "covnoise/core/error.h"
#include "datasets/bitmap_font.h"
#include "datasets/canvas.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

namespace covnoise {
namespace {

constexpr Colour kPaper{250, 250, 248}, kInk{30, 34, 42}, kFaint{120, 126, 136}, kFrame{214, 216, 220};
constexpr std::int64_t kMargin = 24, kGap = 6, kTitleScale = 3, kTextScale = 2, kTile = 80;

/// Places of everything on the sheet, in pixels.
struct Sheet {
  std::int64_t rows, columns, scale, tile_width, tile_height, row_height, left, top, width, height;
};

Sheet plan(const DataSource& source, const at::Tensor& images, std::int64_t rows, std::int64_t columns,
           std::int64_t header_width) {
  Sheet s{};
  s.rows = rows;
  s.columns = columns;
  s.scale = std::max<std::int64_t>(1, (kTile + images.size(3) / 2) / images.size(3));
  s.tile_width = images.size(3) * s.scale;
  s.tile_height = images.size(2) * s.scale;
  s.row_height = std::max<std::int64_t>(s.tile_height, kFontHeight * kTextScale) + kGap;
  std::int64_t name_width = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    name_width = std::max(name_width, Canvas::text_width(source.classes[i], kTextScale));
  }
  s.left = kMargin + name_width + 2 * kGap;
  s.top = kMargin + kFontHeight * (kTitleScale + kTextScale) + 3 * kGap;
  s.width = std::max(s.left + columns * (s.tile_width + kGap) - kGap, kMargin + header_width) + kMargin;
  s.height = s.top + rows * s.row_height - kGap + kMargin;
  return s;
}

void draw_row(Canvas& canvas, const Sheet& s, std::int64_t row, const std::string& name, const at::Tensor& images,
              const at::Tensor& members) {
  const std::int64_t top = s.top + row * s.row_height;
  // 7 of the font's 9 rows stand above the line: these are what looks centred.
  const std::int64_t text_top = top + (s.tile_height - 7 * kTextScale) / 2;
  canvas.text(s.left - 2 * kGap - Canvas::text_width(name, kTextScale), text_top, name, kTextScale, kInk);
  for (std::int64_t i = 0; i < std::min(s.columns, members.size(0)); ++i) {
    const std::int64_t left = s.left + i * (s.tile_width + kGap);
    canvas.fill(left - 1, top - 1, s.tile_width + 2, s.tile_height + 2, kFrame);
    canvas.image(left, top, images[members[i].item<std::int64_t>()], s.scale);
  }
}

}  // namespace

void write_preview(const DataSource& source, const std::filesystem::path& file, const PreviewOptions& options) {
  if (options.split != "train" && options.split != "test") {
    throw Error(fmt::format("unknown split '{}'; known: train, test", options.split));
  }
  const Dataset& set = options.split == "train" ? source.train : source.test;
  const auto classes = static_cast<std::int64_t>(source.classes.size());
  const std::int64_t rows = std::min(classes, options.most_classes);
  const std::string title = source.name;
  std::string facts = fmt::format("{}: {} images of {}x{}x{}, {} classes", options.split, set.images.size(0),
                                  set.images.size(1), set.images.size(2), set.images.size(3), classes);
  if (rows < classes) facts += fmt::format(" (the first {} shown)", rows);
  const std::int64_t header = std::max(Canvas::text_width(title, kTitleScale), Canvas::text_width(facts, kTextScale));
  const Sheet s = plan(source, set.images, rows, options.per_class, header);
  Canvas canvas(s.width, s.height, kPaper);
  canvas.text(kMargin, kMargin, title, kTitleScale, kInk);
  canvas.text(kMargin, kMargin + kFontHeight * kTitleScale + kGap, facts, kTextScale, kFaint);
  for (std::int64_t row = 0; row < rows; ++row) {
    draw_row(canvas, s, row, source.classes[row], set.images, at::nonzero(set.labels == row).flatten());
  }
  write_png(file, canvas.picture());
}

}  // namespace covnoise
