#include "covnoise/report/data_preview.h"

#include "covnoise/core/internal/file.h"
#include "covnoise/plot/figure.h"
#include "datasets/files.h"
#include "datasets/formats/image_file.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <torch/types.h>

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

constexpr std::int64_t kShown = 160 * 160;  // pixels of the PNG for an image of 8 x 8

/// Where the build has no cairo, there is no PNG to look at.
class PngPreview : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!plot::png_available()) GTEST_SKIP() << "no cairo";
  }
  Image sheet(const DataSource& source, const PreviewOptions& options = {}) {
    return read_image(write_preview(source, folder_ / "sheet.png", options));
  }
  TemporaryFolder folder_;
};

TEST_F(PngPreview, ShowsEveryClass) {
  for (const std::int64_t channels : {1, 3}) {
    const Image shown = sheet(grey_source(4, channels));
    for (int k = 0; k < 4; ++k) EXPECT_EQ(count(shown, static_cast<std::uint8_t>(100 + k)), 3 * kShown);
  }
}

TEST_F(PngPreview, ShowsTheSplitAndTheFirstClasses) {
  PreviewOptions options;
  options.split = "test";
  options.most_classes = 2;
  const Image shown = sheet(grey_source(4, 1), options);
  EXPECT_EQ(count(shown, 101), kShown);
  EXPECT_EQ(count(shown, 102), 0);
}

TEST_F(PngPreview, LeavesAClassWithoutImagesEmpty) {
  auto source = grey_source(2, 1);
  source.train = {source.train.images.slice(0, 1, 2), source.train.labels.slice(0, 1, 2)};
  const Image shown = sheet(source);
  EXPECT_EQ(count(shown, 100), 0);
  EXPECT_EQ(count(shown, 101), kShown);
}

std::int64_t occurrences(const std::string& text, const std::string& part) {
  std::int64_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Preview, IsAnSvgWithEmbeddedImagesOnRequestAndWithoutCairo) {
  TemporaryFolder folder;
  const auto path = write_preview(grey_source(2, 1), folder / "sheet.svg");
  EXPECT_EQ(path, folder / "sheet.svg");
  const std::string svg = read_file(path);
  EXPECT_EQ(occurrences(svg, "href=\"data:image/png;base64,iVBORw0KGgo"), 6);  // a PNG's signature
  EXPECT_THAT(svg, HasSubstr("train: 6 images of 1x8x8, 2 classes</text>"));
  EXPECT_EQ(write_preview(grey_source(2, 1), folder / "sheet.png"),
            folder / (plot::png_available() ? "sheet.png" : "sheet.svg"));
}

TEST(Preview, RefusesBadArguments) {
  TemporaryFolder folder;
  PreviewOptions options;
  EXPECT_THAT(error_of([&] { write_preview(grey_source(2, 1), folder / "none/sheet.png"); }),
              ::testing::AllOf(HasSubstr("cannot write"), HasSubstr("none/")));
  options.split = "all";
  EXPECT_THAT(error_of([&] { write_preview(grey_source(2, 1), folder / "a.png", options); }),
              HasSubstr("unknown split 'all'; known: train, test"));
}

}  // namespace
}  // namespace covnoise::testing
