#include "datasets/formats/idx.h"

#include "datasets/files.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>

namespace covnoise::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Idx : public ::testing::Test {
 protected:
  std::string images_error(const std::string& bytes) {
    write_bytes(folder_ / "images", bytes);
    return error_of([&] { read_idx_images(folder_ / "images"); });
  }
  std::string labels_error(const std::string& bytes) {
    write_bytes(folder_ / "labels", bytes);
    return error_of([&] { read_idx_labels(folder_ / "labels", 10); });
  }
  TemporaryFolder folder_;
};

TEST_F(Idx, ReadsPlainAndPacked) {
  for (const bool pack : {false, true}) {
    const std::string images = idx_images(3, 2, 4), labels = idx_labels({7, 0, 9});
    write_bytes(folder_ / "i", pack ? packed(images) : images);
    write_bytes(folder_ / "l", pack ? packed(labels) : labels);
    const Dataset set = read_idx(folder_ / "i", folder_ / "l", 10);
    EXPECT_TRUE(set.images.equal(torch::arange(24, torch::kByte).reshape({3, 1, 2, 4})));
    EXPECT_TRUE(set.labels.equal(torch::tensor({7, 0, 9}, torch::kLong)));
  }
}

TEST_F(Idx, RefusesWrongMagic) {
  EXPECT_THAT(images_error(idx_labels("\1\2")),
              AllOf(HasSubstr("images: byte 0: magic number 0x00000801"), HasSubstr("0x00000803")));
  EXPECT_THAT(labels_error(idx_images(1, 2, 2)),
              AllOf(HasSubstr("labels: byte 0: magic number 0x00000803"), HasSubstr("0x00000801")));
}

TEST_F(Idx, RefusesShortFiles) {
  const std::string whole = idx_images(3, 2, 4);
  EXPECT_THAT(images_error(whole.substr(0, 39)), HasSubstr("images: ends at byte 39, but 40 bytes were expected"));
  EXPECT_THAT(images_error(whole.substr(0, 6)), HasSubstr("ends at byte 6, but 8 bytes"));
  EXPECT_THAT(images_error(""), HasSubstr("ends at byte 0, but 4 bytes"));
  EXPECT_THAT(labels_error(idx_labels("\1\2").substr(0, 9)), HasSubstr("labels: ends at byte 9, but 10 bytes"));
}

TEST_F(Idx, RefusesExtraBytes) {
  EXPECT_THAT(images_error(idx_images(3, 2, 4) + "x"), HasSubstr("images: extra bytes from byte 40 on"));
  EXPECT_THAT(labels_error(packed(idx_labels("\1\2") + "xy")), HasSubstr("labels: extra bytes from byte 10 on"));
}

TEST_F(Idx, RefusesImpossibleDimensions) {
  const std::string magic = big_endian(0x803), one = big_endian(1), huge = big_endian(0xffffffff), none = big_endian(0);
  EXPECT_THAT(images_error(magic + none + one + one + "x"), HasSubstr("byte 4: 0 images"));
  EXPECT_THAT(images_error(magic + one + huge + one + "x"), HasSubstr("byte 8: 4294967295 rows"));
  EXPECT_THAT(images_error(magic + one + one + none + "x"), HasSubstr("byte 12: 0 columns"));
  EXPECT_THAT(images_error(packed(magic + huge + huge + huge)), HasSubstr("byte 4: 4294967295 images"));
}

// A packed file may promise a thousand times its size.
TEST_F(Idx, RefusesMoreThanIsEverRead) {
  std::string noise(400'000, '\0');
  std::uint32_t state = 1;
  for (char& c : noise) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  EXPECT_THAT(labels_error(packed(big_endian(0x801) + big_endian(300'000'000) + noise)),
              HasSubstr("byte 4: 300000000 labels, but this file has room for 1 to 268435456"));
  EXPECT_THAT(images_error(packed(big_endian(0x803) + big_endian(300'000) + big_endian(1000) + noise)),
              HasSubstr("byte 8: 1000 rows, but this file has room for 1 to 894"));
}

TEST_F(Idx, RefusesLabelsOutOfRange) {
  EXPECT_THAT(labels_error(idx_labels({1, 9, 10})), HasSubstr("labels: byte 10: label 10, but labels are 0 to 9"));
}

TEST_F(Idx, RefusesDifferentCounts) {
  write_bytes(folder_ / "i", idx_images(3, 2, 4));
  write_bytes(folder_ / "l", idx_labels({1, 2}));
  EXPECT_THAT(error_of([&] { read_idx(folder_ / "i", folder_ / "l", 10); }),
              AllOf(HasSubstr("byte 4: 2 labels"), HasSubstr("3 images")));
}

TEST_F(Idx, RefusesDamagedGzip) {
  std::string bytes = packed(idx_images(3, 20, 20));
  EXPECT_THAT(images_error(bytes.substr(0, bytes.size() / 2)), HasSubstr("ends at byte"));
  EXPECT_THAT(images_error(bytes.substr(0, bytes.size() - 4)), HasSubstr("cut short after byte 1216"));
  bytes[bytes.size() - 6] ^= 1;  // in the checksum
  EXPECT_THAT(images_error(bytes), HasSubstr("damaged after byte"));
}

TEST_F(Idx, RefusesWhatIsNoFile) {
  EXPECT_THAT(error_of([&] { read_idx_images(folder_ / "none"); }), HasSubstr("none"));
  EXPECT_THAT(error_of([&] { read_idx_images(folder_.path()); }), HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace covnoise::testing
