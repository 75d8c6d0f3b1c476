#include "datasets/formats/tar.h"

#include "datasets/files.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>

namespace covnoise::testing {
namespace {

using ::testing::HasSubstr;

class Tar : public ::testing::Test {
 protected:
  std::string unpack(const std::string& archive) {
    write_bytes(folder_ / "a.tar.gz", archive);
    return error_of([&] { unpack_tar(folder_ / "a.tar.gz", {{"d/one", folder_ / "1"}, {"d/two", folder_ / "2"}}); });
  }
  TemporaryFolder folder_;
  const std::string one_ = tar_member("d/one", ramp(1000)), two_ = tar_member("d/two", "hello");
};

TEST_F(Tar, UnpacksOnlyWhatIsAskedFor) {
  const std::string archive =
      tar_member("d/", "", '5') + one_ + tar_member("d/other", "x") + tar_member("../../evil", "x") + two_;
  EXPECT_EQ(unpack(tar_gz(archive)), "");
  EXPECT_EQ(read_bytes(folder_ / "1"), ramp(1000));
  EXPECT_EQ(read_bytes(folder_ / "2"), "hello");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 3);  // with the archive
}

TEST_F(Tar, ReadsOldGnuHeaders) {
  std::string member = tar_member("d/one", "x");
  member.replace(257, 8, std::string("ustar  \0", 8));
  unsigned sum = 8 * ' ';
  for (std::size_t i = 0; i < 512; ++i) sum += i >= 148 && i < 156 ? 0 : static_cast<unsigned char>(member[i]);
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  member.replace(148, 6, text);
  EXPECT_EQ(unpack(tar_gz(member + two_)), "");
}

TEST_F(Tar, RefusesLinks) {
  EXPECT_THAT(unpack(tar_gz(one_ + tar_member("d/two", "", '2'))),
              HasSubstr("byte 1536 of the unpacked archive: 'd/two' is of type '2'"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "2"));
}

TEST_F(Tar, RefusesDamage) {
  std::string bad = one_ + two_;
  bad[1536] = 'e';
  EXPECT_THAT(unpack(tar_gz(bad)),
              HasSubstr("byte 1536 of the unpacked archive: the checksum of a tar header is wrong"));
  EXPECT_THAT(unpack(tar_gz(one_ + one_)), HasSubstr("'d/one' comes twice"));
  EXPECT_THAT(unpack(tar_gz(one_)), HasSubstr("'d/two' is not in the archive"));
  EXPECT_THAT(unpack(packed(one_.substr(0, 900))), HasSubstr("ends at byte 900"));
  EXPECT_THAT(unpack(packed(ramp(2000, 1))), HasSubstr("byte 0 of the unpacked archive: not a tar header"));
}

TEST_F(Tar, RefusesHugeMembers) {
  std::string member = tar_member("d/one", "x");
  member.replace(124, 11, "77777777777");
  unsigned sum = 8 * ' ';
  for (std::size_t i = 0; i < 512; ++i) sum += i >= 148 && i < 156 ? 0 : static_cast<unsigned char>(member[i]);
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  member.replace(148, 6, text);
  EXPECT_THAT(unpack(tar_gz(member)), HasSubstr("'d/one' has 8589934591 bytes; at most"));
}

}  // namespace
}  // namespace covnoise::testing
