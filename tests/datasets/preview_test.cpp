#include "covnoise/datasets/preview.h"

#include "datasets/bitmap_font.h"
#include "datasets/canvas.h"
#include "datasets/files.h"
#include "datasets/formats/image_file.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>

#include <set>

namespace covnoise::testing {
namespace {

using ::testing::HasSubstr;

/// Class k's images are all of the grey 100 + k.
DataSource grey_source(std::int64_t classes, std::int64_t channels) {
  DataSource source;
  source.name = "greys";
  source.train.labels = torch::arange(3 * classes) % classes;
  source.train.images =
      (source.train.labels + 100).to(torch::kByte).reshape({-1, 1, 1, 1}).expand({-1, channels, 8, 8}).contiguous();
  source.test = {source.train.images.slice(0, 0, classes), source.train.labels.slice(0, 0, classes)};
  for (std::int64_t k = 0; k < classes; ++k) source.classes.push_back("class " + std::to_string(k));
  return source;
}

/// Number of pixels of the grey `value`.
std::int64_t count(const Image& image, std::uint8_t value) {
  std::int64_t found = 0;
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
    found += image.pixels[i] == value && image.pixels[i + 1] == value && image.pixels[i + 2] == value;
  }
  return found;
}

TEST(Preview, ShowsEveryClass) {
  TemporaryFolder folder;
  for (const std::int64_t channels : {1, 3}) {
    write_preview(grey_source(4, channels), folder / "sheet.png");
    const Image sheet = read_image(folder / "sheet.png");
    ASSERT_EQ(sheet.channels, 3);
    // Images of 8x8 are shown 80 wide.
    for (int k = 0; k < 4; ++k) EXPECT_EQ(count(sheet, static_cast<std::uint8_t>(100 + k)), 3 * 80 * 80);
  }
}

TEST(Preview, ShowsTheSplitAndTheFirstClasses) {
  TemporaryFolder folder;
  PreviewOptions options;
  options.split = "test";
  options.most_classes = 2;
  write_preview(grey_source(4, 1), folder / "sheet.png", options);
  const Image sheet = read_image(folder / "sheet.png");
  EXPECT_EQ(count(sheet, 101), 80 * 80);
  EXPECT_EQ(count(sheet, 102), 0);
}

TEST(Preview, RefusesBadArguments) {
  TemporaryFolder folder;
  PreviewOptions options;
  EXPECT_THAT(error_of([&] { write_preview(grey_source(2, 1), folder / "none/sheet.png"); }),
              HasSubstr("none/sheet.png: cannot be written"));
  options.split = "all";
  EXPECT_THAT(error_of([&] { write_preview(grey_source(2, 1), folder / "a.png", options); }),
              HasSubstr("unknown split 'all'; known: train, test"));
}

TEST(BitmapFont, DrawsEveryCharacterDifferently) {
  std::set<std::string> shapes;
  for (char c = ' '; c <= '~'; ++c) {
    std::string shape;
    for (int y = 0; y < kFontHeight; ++y) {
      for (int x = 0; x < kFontWidth; ++x) shape += font_pixel(c, x, y) ? '#' : '.';
    }
    EXPECT_TRUE(shapes.insert(shape).second) << c;
  }
}

TEST(Canvas, CutsOffWhatFallsOutside) {
  Canvas canvas(10, 10, {255, 255, 255});
  canvas.fill(-5, 8, 8, 8, {0, 0, 0});
  EXPECT_EQ(count(canvas.picture(), 0), 3 * 2);
  EXPECT_EQ(Canvas::text_width("d\xc3\xa9j\xc3\xa0", 2), 4 * 6 * 2);  // four characters
}

}  // namespace
}  // namespace covnoise::testing
