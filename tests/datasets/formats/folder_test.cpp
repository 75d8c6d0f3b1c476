#include "datasets/formats/folder.h"

#include "covnoise/datasets/catalog.h"
#include "datasets/files.h"
#include "datasets/formats/image_file.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <png.h>
#include <torch/types.h>

#ifdef COVNOISE_HAS_JPEG
#include <jpeglib.h>
#endif

namespace covnoise::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A picture of a single colour or grey value.
Image plain(std::int64_t width, std::int64_t height, const std::vector<std::uint8_t>& colour) {
  Image image{width, height, static_cast<std::int64_t>(colour.size()), {}};
  for (std::int64_t i = 0; i < width * height; ++i)
    image.pixels.insert(image.pixels.end(), colour.begin(), colour.end());
  return image;
}

void put_png(const fs::path& path, const Image& image) {
  fs::create_directories(path.parent_path());
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = image.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  ASSERT_NE(png_image_write_to_file(&png, path.c_str(), 0, image.pixels.data(), 0, nullptr), 0) << png.message;
}

class Folder : public ::testing::Test {
 protected:
  Folder() {
    int shade = 0;
    for (const char* file :
         {"train/cat/1.png", "train/cat/2.PNG", "train/ant/1.png", "test/ant/x.png", "test/cat/y.png"}) {
      put_png(folder_ / file, plain(4, 3, {static_cast<std::uint8_t>(shade += 10)}));
    }
  }
  std::string error() {
    return error_of([&] { read_folder(folder_.path()); });
  }
  TemporaryFolder folder_;
};

TEST_F(Folder, ReadsClassesAndFilesInOrder) {
  write_bytes(folder_ / "train/.hidden", "x");
  write_bytes(folder_ / "train/cat/.hidden", "x");
  const DataSource source = read_folder(folder_.path());
  EXPECT_THAT(source.classes, ElementsAre("ant", "cat"));
  EXPECT_TRUE(source.train.labels.equal(torch::tensor({0, 1, 1}, torch::kLong)));
  EXPECT_TRUE(source.test.labels.equal(torch::tensor({0, 1}, torch::kLong)));
  EXPECT_EQ(source.train.images.sizes(), (std::vector<std::int64_t>{3, 1, 3, 4}));
  EXPECT_TRUE(source.train.images.select(3, 0).select(2, 0).flatten().equal(torch::tensor({30, 10, 20}, torch::kByte)));
}

TEST_F(Folder, HasStatisticsAndVerifies) {
  const std::string name = "folder:" + folder_.path().string();
  const DataSource source = load_data(name, {});
  EXPECT_NEAR(source.mean.at(0), 20 / 255.0, 1e-12);
  EXPECT_NEAR(source.std.at(0), std::sqrt(200 / 3.0) / 255, 1e-12);
  EXPECT_EQ(verify_data(name, {}).at(0).problem, "");
  write_bytes(folder_ / "test/cat/y.png", "x");
  EXPECT_THAT(verify_data(name, {}).at(0).problem, HasSubstr("y.png: byte 0: neither PNG nor JPEG"));
}

TEST_F(Folder, SplitsColoursIntoPlanes) {
  TemporaryFolder folder;
  Image image = plain(2, 1, {1, 2, 3});
  image.pixels = {1, 2, 3, 4, 5, 6};
  for (const char* file : {"train/a/1.png", "train/b/1.png", "test/a/1.png", "test/b/1.png"})
    put_png(folder / file, image);
  const DataSource source = read_folder(folder.path());
  EXPECT_TRUE(source.train.images[0].equal(torch::tensor({1, 4, 2, 5, 3, 6}, torch::kByte).reshape({3, 1, 2})));
}

TEST_F(Folder, NamesTheOddFile) {
  put_png(folder_ / "test/cat/z.png", plain(4, 4, {1}));
  EXPECT_THAT(error(), AllOf(HasSubstr("test/cat/z.png: an image of 1x4x4"), HasSubstr("train/ant/1.png has 1x3x4")));
  put_png(folder_ / "test/cat/z.png", plain(4, 3, {1, 2, 3}));
  EXPECT_THAT(error(), HasSubstr("test/cat/z.png: an image of 3x3x4"));
}

TEST_F(Folder, RefusesDifferentClasses) {
  put_png(folder_ / "train/dog/1.png", plain(4, 3, {1}));
  EXPECT_THAT(error(), HasSubstr("class 'dog' is in train but not in test"));
  fs::rename(folder_ / "train/dog", folder_ / "test/bee");
  EXPECT_THAT(error(), HasSubstr("class 'bee' is in test but not in train"));
}

TEST_F(Folder, RefusesMissingParts) {
  EXPECT_THAT(error_of([&] { read_folder(folder_ / "nowhere"); }), HasSubstr("nowhere/train: not a folder"));
  fs::create_directories(folder_ / "train/empty");
  fs::create_directories(folder_ / "test/empty");
  EXPECT_THAT(error(), HasSubstr("train/empty: no images"));
  remove_tree(folder_ / "train");
  fs::create_directories(folder_ / "train/only");
  EXPECT_THAT(error(), HasSubstr("train: 1 class folders; at least 2"));
}

TEST_F(Folder, RefusesStrayFiles) {
  write_bytes(folder_ / "train/cat/notes.txt", "x");
  EXPECT_THAT(error(), HasSubstr("train/cat/notes.txt: not a PNG or JPEG file"));
  fs::rename(folder_ / "train/cat/notes.txt", folder_ / "train/notes.txt");
  EXPECT_THAT(error(), HasSubstr("train/notes.txt: not a folder"));
}

TEST_F(Folder, RefusesDamagedPng) {
  const std::string bytes = read_bytes(folder_ / "test/cat/y.png");
  for (const std::size_t size : {bytes.size() / 2, bytes.size() - 20}) {
    write_bytes(folder_ / "test/cat/y.png", bytes.substr(0, size));
    EXPECT_THAT(error(), HasSubstr("test/cat/y.png: not a readable PNG file: "));
  }
}

#ifdef COVNOISE_HAS_JPEG
std::string jpeg_bytes(const Image& image, const std::vector<jpeg_scan_info>& scans = {}) {
  jpeg_compress_struct info{};
  jpeg_error_mgr manager{};
  info.err = jpeg_std_error(&manager);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = static_cast<int>(image.channels);
  info.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  if (!scans.empty()) {
    info.scan_info = scans.data();
    info.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPROW>(image.pixels.data() + image.width * image.channels * info.next_scanline);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string bytes(reinterpret_cast<char*>(buffer), size);
  jpeg_destroy_compress(&info);
  std::free(buffer);
  return bytes;
}

TEST_F(Folder, ReadsJpeg) {
  write_bytes(folder_ / "test/cat/z.jpeg", jpeg_bytes(plain(4, 3, {77})));
  const DataSource source = read_folder(folder_.path());
  EXPECT_TRUE(source.test.images[2].equal(torch::full({1, 3, 4}, 77, torch::kByte)));
}

TEST(JpegFile, ReadsColours) {
  TemporaryFolder folder;
  write_bytes(folder / "a.jpg", jpeg_bytes(plain(16, 16, {200, 40, 90})));
  const Image image = read_image(folder / "a.jpg");
  ASSERT_EQ(image.channels, 3);
  ASSERT_EQ(image.pixels.size(), 16U * 16 * 3);
  const std::vector<int> expected{200, 40, 90};
  for (int c = 0; c < 3; ++c) EXPECT_NEAR(image.pixels[c], expected[c], 3);
}

/// The DC coefficients, then each of the others `bits` times: one bit more in each scan.
std::vector<jpeg_scan_info> progressive_scans(int bits) {
  std::vector<jpeg_scan_info> scans{{1, {0}, 0, 0, 0, 0}};
  for (int low = bits - 1; low >= 0; --low) {
    for (int k = 1; k < 64; ++k) scans.push_back({1, {0}, k, k, low == bits - 1 ? 0 : low + 1, low});
  }
  return scans;
}

TEST(JpegFile, RefusesVeryManyScans) {
  const Image grey = plain(8, 8, {77});
  EXPECT_EQ(decode_image(jpeg_bytes(grey, progressive_scans(1)), "a.jpg").pixels, grey.pixels);  // 64 scans
  EXPECT_THAT(error_of([&] { decode_image(jpeg_bytes(grey, progressive_scans(2)), "a.jpg"); }),
              HasSubstr("a.jpg: not a readable JPEG file: more than 64 scans"));
}

TEST(JpegFile, RefusesDamage) {
  TemporaryFolder folder;
  Image image = plain(64, 64, {0});
  for (std::size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<std::uint8_t>(i * i);
  const std::string bytes = jpeg_bytes(image);
  for (const std::size_t size : {std::size_t{3}, bytes.size() / 2, bytes.size() - 10}) {
    write_bytes(folder / "a.jpg", bytes.substr(0, size));
    EXPECT_THAT(error_of([&] { read_image(folder / "a.jpg"); }), HasSubstr("a.jpg: not a readable JPEG file: "))
        << size;
  }
}
#endif

}  // namespace
}  // namespace covnoise::testing
