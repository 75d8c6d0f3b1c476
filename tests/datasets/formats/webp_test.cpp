#include "datasets/files.h"
#include "datasets/formats/image_file.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>

#ifdef COVNOISE_HAS_WEBP
#include <webp/encode.h>
#endif

namespace covnoise::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

#ifdef COVNOISE_HAS_WEBP
std::string webp_bytes(const std::vector<std::uint8_t>& rgba, int width, int height) {
  std::uint8_t* buffer = nullptr;
  const std::size_t size = WebPEncodeLosslessRGBA(rgba.data(), width, height, 4 * width, &buffer);
  std::string bytes(reinterpret_cast<char*>(buffer), size);
  WebPFree(buffer);
  return bytes;
}

TEST(WebpFile, ReadsColoursOverBlack) {
  TemporaryFolder folder;
  write_bytes(folder / "a.webp", webp_bytes({200, 40, 90, 255, 10, 20, 30, 255, 255, 255, 255, 0}, 3, 1));
  const Image image = read_image(folder / "a.webp");
  EXPECT_EQ(image.width, 3);
  EXPECT_EQ(image.height, 1);
  EXPECT_EQ(image.channels, 3);
  EXPECT_THAT(image.pixels, ElementsAre(200, 40, 90, 10, 20, 30, 0, 0, 0));
}

TEST(WebpFile, RefusesDamage) {
  TemporaryFolder folder;
  std::vector<std::uint8_t> rgba(4 * 64 * 64, 255);
  for (std::size_t i = 0; i < rgba.size(); ++i) rgba[i] = i % 4 == 3 ? 255 : static_cast<std::uint8_t>(i * i);
  const std::string bytes = webp_bytes(rgba, 64, 64);
  for (const std::size_t size : {std::size_t{16}, bytes.size() / 2, bytes.size() - 10}) {
    write_bytes(folder / "a.webp", bytes.substr(0, size));
    EXPECT_THAT(error_of([&] { read_image(folder / "a.webp"); }), HasSubstr("a.webp: not a readable WebP file: "))
        << size;
  }
}
#else
TEST(WebpFile, SaysWhatIsMissing) {
  TemporaryFolder folder;
  write_bytes(folder / "a.webp", "RIFF....WEBPVP8L");
  EXPECT_THAT(error_of([&] { read_image(folder / "a.webp"); }), HasSubstr("built without libwebp"));
}
#endif

}  // namespace
}  // namespace covnoise::testing
