#include "covnoise/data/internal/digest.h"
#include "datasets/sets.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>

namespace covnoise::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Verify : public ::testing::Test {
 protected:
  std::vector<FileReport> reports() { return verify_files(tiny_.set(), {folder_.path()}); }
  TemporaryFolder folder_;
  const TinyIdx tiny_;
};

TEST_F(Verify, PassesGoodFiles) {
  tiny_.write_packed(folder_.path());
  tiny_.write_plain(folder_ / "Tiny/raw");
  for (const char* below : {"", "Tiny/raw"}) {
    const auto found = verify_files(tiny_.set(), {folder_ / below});
    ASSERT_EQ(found.size(), 4U);
    for (const FileReport& report : found) EXPECT_EQ(report.problem, "") << report.file;
  }
}

TEST_F(Verify, FindsAFlippedBit) {
  tiny_.write_plain(folder_.path());
  std::string bytes = tiny_.files[0].second;
  bytes.back() ^= 1;
  write_bytes(folder_ / "train-images", bytes);
  EXPECT_THAT(reports()[0].problem, AllOf(HasSubstr("train-images: SHA-256 is " + sha256_text(bytes)),
                                          HasSubstr("expected " + sha256_text(tiny_.files[0].second))));
  EXPECT_EQ(reports()[1].problem, "");
}

/// Every bit of the images and labels of every file.
TEST_F(Verify, LoadingRefusesEveryFlippedBit) {
  tiny_.write_plain(folder_.path());
  for (const auto& [name, good] : tiny_.files) {
    const std::size_t header = name.find("images") != std::string::npos ? 16 : 8;
    for (std::size_t bit = 8 * header; bit < 8 * good.size(); ++bit) {
      std::string bytes = good;
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
      write_bytes(folder_ / name, bytes);
      EXPECT_THAT(error_of([&] { load_files(tiny_.set(), {folder_.path()}); }), HasSubstr(name)) << bit;
    }
    write_bytes(folder_ / name, good);
  }
  EXPECT_EQ(error_of([&] { load_files(tiny_.set(), {folder_.path()}); }), "");
}

/// Then no file is read twice.
TEST_F(Verify, TheDigestOfTheSetIsEnough) {
  tiny_.write_plain(folder_.path());
  FileSet set = tiny_.set();
  set.digest = data_digest(load_files(set, {folder_.path()}));
  for (KnownFile& file : set.layouts.front().train) file.sha256 = "another";
  EXPECT_EQ(error_of([&] { load_files(set, {folder_.path()}); }), "");
  set.digest = "another";
  EXPECT_THAT(error_of([&] { load_files(set, {folder_.path()}); }), HasSubstr("expected another; the file is not the"));
}

/// Then no file is named, and still nothing else than the published images is accepted.
TEST_F(Verify, TheDigestDecidesWhereNoChecksumIsKnown) {
  tiny_.write_plain(folder_.path());
  FileSet set = tiny_.set();
  for (KnownFile& file : set.layouts.front().train) file.sha256.clear();
  set.digest = data_digest(load_files(set, {folder_.path()}));
  EXPECT_EQ(verify_files(set, {folder_.path()})[0].problem, "");
  write_bytes(folder_ / "train-labels", idx_labels({0, 2, 2}));
  EXPECT_THAT(verify_files(set, {folder_.path()})[0].problem, HasSubstr("images and labels are not those of tiny"));
  EXPECT_THAT(error_of([&] { load_files(set, {folder_.path()}); }), HasSubstr("covnoise data fetch tiny"));
}

TEST_F(Verify, FindsWhatCannotBeRead) {
  tiny_.write_plain(folder_.path());
  write_bytes(folder_ / "test-labels", idx_labels({2, 3}));
  write_bytes(folder_ / "test-images", idx_images(2, 3, 2));
  EXPECT_THAT(reports()[2].problem, HasSubstr("test-images: images of 1x3x2"));
  EXPECT_THAT(reports()[3].problem, HasSubstr("test-labels: byte 9: label 3"));
}

TEST_F(Verify, ChecksCifarFiles) {
  const TinyArchive tiny;
  write_bytes(folder_ / "tiny-bin/train.bin", tiny.train);
  write_bytes(folder_ / "tiny-bin/test.bin", tiny.test.substr(1));
  const auto found = verify_files(tiny.set(), {folder_.path()});
  EXPECT_EQ(found[0].problem, "");
  EXPECT_THAT(found[1].problem, HasSubstr("test.bin: 3072 bytes is not a whole number of records"));
}

}  // namespace
}  // namespace covnoise::testing
