#include "datasets/formats/folder.h"

#include "covnoise/datasets/catalog.h"
#include "datasets/files.h"
#include "datasets/formats/folder_scan.h"
#include "datasets/formats/image_file.h"
#include "datasets/images.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
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
  EXPECT_THAT(verify_data(name, {}).at(0).problem, HasSubstr("y.png: byte 0: neither PNG, JPEG nor WebP"));
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

TEST_F(Folder, NamesTheSizes) {
  put_png(folder_ / "test/cat/z.png", plain(4, 4, {1}));
  EXPECT_THAT(error(), AllOf(HasSubstr("images of 2 sizes (height x width): 3x4 (5 images, such as "),
                             HasSubstr("train/ant/1.png), 4x4 (1 image, such as "),
                             HasSubstr("test/cat/z.png); set data.resize and data.crop")));
}

TEST_F(Folder, GreyImagesGetThreeChannelsAmongColours) {
  put_png(folder_ / "test/cat/z.png", plain(4, 3, {1, 2, 3}));
  const DataSource source = read_folder(folder_.path());
  EXPECT_EQ(source.train.images.sizes(), (std::vector<std::int64_t>{3, 3, 3, 4}));
  EXPECT_TRUE(source.train.images[0].equal(torch::full({3, 3, 4}, 30, torch::kByte)));
  EXPECT_TRUE(source.test.images[2].select(1, 0).select(1, 0).equal(torch::tensor({1, 2, 3}, torch::kByte)));
  const auto expected = channel_statistics(source.train.images);
  EXPECT_EQ(source.mean, expected.mean);
  EXPECT_EQ(source.std, expected.std);
}

TEST_F(Folder, BringsImagesToOneSize) {
  put_png(folder_ / "test/cat/z.png", plain(20, 10, {90}));
  FolderOptions options;
  options.fit = {6, 0};
  EXPECT_THAT(error_of([&] { read_folder(folder_.path(), options); }), HasSubstr("; set data.crop as well"));
  options.fit = {6, 5};
  const DataSource source = read_folder(folder_.path(), options);
  EXPECT_EQ(source.train.images.sizes(), (std::vector<std::int64_t>{3, 1, 5, 5}));
  EXPECT_TRUE(source.test.images[2].equal(torch::full({1, 5, 5}, 90, torch::kByte)));
  options.fit = {0, 4};
  EXPECT_THAT(error_of([&] { read_folder(folder_.path(), options); }),
              AllOf(HasSubstr("5 of 6 image files cannot be used: "), HasSubstr("train/ant/1.png: 4 x 3 pixels"),
                    HasSubstr("smaller than data.crop = 4; raise data.resize")));
}

/// Every image, and the digest, are the same whether they are kept in memory or read from disk.
TEST_F(Folder, ReadsFromDiskWhatDoesNotFitIntoMemory) {
  put_png(folder_ / "test/cat/z.png", plain(4, 3, {1, 2, 3}));
  FolderOptions small;
  small.memory = 100.0 / (1 << 30);  // 6 images of 36 bytes are too many
  const DataSource kept = read_folder(folder_.path()), read = read_folder(folder_.path(), small);
  ASSERT_FALSE(kept.train.reader);
  ASSERT_TRUE(read.train.reader);
  EXPECT_EQ(read.train.sizes(), kept.train.sizes());
  EXPECT_TRUE(read.train.labels.equal(kept.train.labels));
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(read.train.image(i).equal(kept.train.image(i)));
    EXPECT_TRUE(read.test.image(i).equal(kept.test.image(i)));
  }
  EXPECT_EQ(read.mean, kept.mean);
  EXPECT_EQ(read.std, kept.std);
  EXPECT_EQ(read.digest, kept.digest);
  EXPECT_THAT(read.notes, ElementsAre(HasSubstr("they are read from disk while training")));
  const auto chosen = read.train.select(torch::tensor({2, 0}));
  EXPECT_TRUE(chosen.image(1).equal(kept.train.image(0)));
  EXPECT_TRUE(chosen.labels.equal(torch::tensor({1, 0})));
  put_png(folder_ / "train/ant/1.png", plain(4, 3, {31, 30, 30}));
  EXPECT_THAT(error_of([&] { read.train.image(0); }), HasSubstr("train/ant/1.png was changed while it was in use"));
  EXPECT_NE(read_folder(folder_.path()).digest, kept.digest);
}

TEST_F(Folder, KeepsNoMoreThanItMay) {
  const auto files = list_folder(folder_.path()).train;
  std::size_t kept = 0;
  for (const auto& image : scan_images(files, {}, /*most_bytes=*/30)) kept += image.planes.capacity();
  EXPECT_EQ(kept, 24U);  // two of three images of 12 bytes
}

TEST_F(Folder, TakesValForTest) {
  fs::rename(folder_ / "test", folder_ / "val");
  EXPECT_EQ(read_folder(folder_.path()).test.labels.size(0), 2);
  put_png(folder_ / "test/cat/z.png", plain(4, 3, {1}));
  put_png(folder_ / "test/ant/z.png", plain(4, 3, {1}));
  put_png(folder_ / "test/ant/zz.png", plain(4, 3, {1}));
  const DataSource source = read_folder(folder_.path());
  EXPECT_EQ(source.test.labels.size(0), 3);
  EXPECT_THAT(source.notes, ElementsAre(HasSubstr("test/ is the test set; val/ is not used")));
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

TEST_F(Folder, IgnoresAndCountsWhatIsNoImage) {
  EXPECT_TRUE(read_folder(folder_.path()).notes.empty());
  write_bytes(folder_ / "train/cat/notes.txt", "x");
  EXPECT_THAT(read_folder(folder_.path()).notes,
              ElementsAre(AllOf(HasSubstr("ignored 1 entry that is no image"), HasSubstr("train/cat/notes.txt"))));
  write_bytes(folder_ / "train/notes.txt", "x");
  fs::create_directories(folder_ / "test/cat/more.png");
  EXPECT_THAT(read_folder(folder_.path()).notes, ElementsAre(HasSubstr("ignored 3 entries that are no image")));
  EXPECT_EQ(read_folder(folder_.path()).train.labels.size(0), 3);
}

TEST_F(Folder, ListsAllBadImagesAtOnce) {
  write_bytes(folder_ / "train/cat/bad.jpg", "<html>");
  write_bytes(folder_ / "test/cat/worse.webp", "");
  EXPECT_THAT(error(), AllOf(HasSubstr("2 of 7 image files cannot be used: "),
                             HasSubstr("train/cat/bad.jpg: byte 0: neither PNG, JPEG nor WebP; "),
                             HasSubstr("test/cat/worse.webp: ")));
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
