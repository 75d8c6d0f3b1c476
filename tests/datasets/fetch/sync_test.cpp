// What is downloaded and unpacked is on the disk before it gets its name.
#include "datasets/sets.h"
#include "support/http_server.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace {

std::vector<std::string>& synced() {
  static std::vector<std::string> names;
  return names;
}

}  // namespace

/// In place of the C library's in this program: notes the name that the file has at that moment.
extern "C" int fsync(int descriptor) {
  std::error_code ignored;
  const auto link = std::filesystem::path("/proc/self/fd") / std::to_string(descriptor);
  synced().push_back(std::filesystem::read_symlink(link, ignored).filename().string());
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

namespace covnoise::testing {
namespace {

TEST(FetchSync, SyncsFilesBeforeTheyAreRenamedAndFoldersAfterwards) {
  const TemporaryFolder folder;
  HttpServer server;
  const TinyArchive tiny;
  server.files["/tiny.tar.gz"] = tiny.archive;
  synced().clear();
  fetch_files(tiny.set(), {folder.path(), server.url()});
  EXPECT_THAT(synced(), ::testing::ElementsAre("tiny.tar.gz.part", folder.path().filename().string(), "train.bin.part",
                                               "test.bin.part", "tiny-bin", "tiny-bin"));
}

}  // namespace
}  // namespace covnoise::testing
