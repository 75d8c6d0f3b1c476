#include "covnoise/core/internal/digest.h"

#include <gtest/gtest.h>

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "support/temporary_folder.h"

namespace covnoise {
namespace {

// FIPS 180-2, appendix B, and the digest of the empty string.
TEST(Sha256, MatchesTheStandardsExamples) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, OfAFileIsThatOfItsBytes) {
  const testing::TemporaryFolder folder;
  const std::string data(700'001, 'x');
  write_file_synced(folder / "data", data);
  EXPECT_EQ(sha256_hex_of_file(folder / "data"), sha256_hex(data));
  EXPECT_THROW(sha256_hex_of_file(folder / "missing"), Error);
  EXPECT_THROW(sha256_hex_of_file(folder.path()), Error);
}

}  // namespace
}  // namespace covnoise
