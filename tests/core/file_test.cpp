#include "covnoise/core/internal/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "covnoise/core/error.h"
#include "support/file_size_limit.h"
#include "support/temporary_folder.h"

namespace covnoise {
namespace {

namespace fs = std::filesystem;
using testing::FileSizeLimit;
using ::testing::HasSubstr;
using testing::TemporaryFolder;
using ::testing::ThrowsMessage;

TEST(File, WritesAndReadsBackAnyBytes) {
  const TemporaryFolder folder;
  for (const std::size_t size : {0, 1, 4095, 4096, 100000}) {
    std::string data(size, '\0');
    for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<char>(i * 31);
    write_file_synced(folder / "data", data);
    EXPECT_EQ(read_file(folder / "data"), data);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(File, ReadsFilesWhoseSizeIsNotKnown) { EXPECT_THAT(read_file("/proc/self/status"), HasSubstr("Name:")); }

TEST(File, FullDiskLeavesTheOldFileAndNoTemporary) {
  const TemporaryFolder folder;
  write_file_synced(folder / "data", "old");
  {
    const FileSizeLimit limit(1000);
    EXPECT_THAT(
        [&] { write_file_synced(folder / "data", std::string(5000, 'x')); },
        ThrowsMessage<Error>(HasSubstr("cannot write " + (folder / ".data.tmp").string() + ": File too large")));
  }
  EXPECT_EQ(read_file(folder / "data"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(File, WritersOfOneFileTakeTurns) {
  const TemporaryFolder folder;
  std::atomic<bool> wrong{false};
  const auto write = [&](char letter) {
    try {
      for (std::size_t i = 0; i < 100; ++i) {
        write_file_synced(folder / "data", std::string(20000 + 1000 * (i % 7), letter));
        const auto data = read_file(folder / "data");
        if (data.size() < 20000 || data.find_first_not_of(data.front()) != std::string::npos) wrong = true;
      }
    } catch (const Error&) {
      wrong = true;
    }
  };
  std::vector<std::thread> writers;
  for (const char letter : {'a', 'b', 'c'}) writers.emplace_back(write, letter);
  for (auto& writer : writers) writer.join();
  EXPECT_FALSE(wrong);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(File, ReplacesRegularFilesOnly) {
  const testing::TemporaryFolder folder;
  write_file_synced(folder / "target", "old");
  std::filesystem::create_symlink(folder / "target", folder / "link");
  EXPECT_THAT([&] { write_file_synced(folder / "link", "new"); },
              ThrowsMessage<Error>(HasSubstr("only regular files are replaced")));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "target"), "old");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(write_file_synced(folder / "pipe", "new"), Error);
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "pipe"));
}

TEST(File, NoSpaceIsOneClearLine) {
  OutputFile full("/dev/full", OutputFile::Mode::kAppend);
  EXPECT_THAT([&] { full.write("x"); },
              ThrowsMessage<Error>(
                  ::testing::StrEq("cannot write /dev/full: No space left on device; free some space and repeat")));
}

TEST(File, NamesWhatCannotBeOpened) {
  const TemporaryFolder folder;
  write_file_synced(folder / "file", "");
  EXPECT_THAT([&] { write_file_synced(folder / "file" / "below", "x"); },
              ThrowsMessage<Error>(HasSubstr("Not a directory")));
  EXPECT_THAT([&] { create_folders(folder / "file" / "below"); },
              ThrowsMessage<Error>(HasSubstr("cannot create folder")));
  EXPECT_THAT([&] { read_file(folder / "missing"); }, ThrowsMessage<Error>(HasSubstr("No such file")));
  EXPECT_THAT([&] { read_file(folder.path()); }, ThrowsMessage<Error>(HasSubstr("Is a directory")));
  EXPECT_THAT([&] { write_new_file_synced(folder / "file", "x"); }, ThrowsMessage<Error>(HasSubstr("File exists")));
}

TEST(File, AppendsToWhatIsThere) {
  const TemporaryFolder folder;
  write_file_synced(folder / "log", "one\n");
  OutputFile log(folder / "log", OutputFile::Mode::kAppend);
  log.write("two\n");
  EXPECT_EQ(read_file(folder / "log"), "one\ntwo\n");
}

TEST(File, OfTooManyBytesIsNotRead) {
  const TemporaryFolder folder;
  write_file_synced(folder / "file", "12345");
  EXPECT_EQ(read_file(folder / "file", 5), "12345");
  EXPECT_THAT([&] { read_file(folder / "file", 4); }, ThrowsMessage<Error>(HasSubstr("file: more than 4 bytes")));
  EXPECT_THAT([] { read_file("/dev/zero", 1'000'000); }, ThrowsMessage<Error>(HasSubstr("more than 1000000 bytes")));
}

TEST(File, LargerThanTheMemoryIsAnError) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the address sanitizer ends the program instead";
#endif
  const TemporaryFolder folder;
  write_file_synced(folder / "file", "");
  std::filesystem::resize_file(folder / "file", std::uintmax_t{1} << 42);
  rlimit before{};  // without a limit, some systems promise more memory than they have
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit less{rlim_t{1} << 40, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &less), 0);
  EXPECT_THAT([&] { read_file(folder / "file"); }, ThrowsMessage<Error>(HasSubstr("Cannot allocate memory")));
  EXPECT_EQ(setrlimit(RLIMIT_AS, &before), 0);
}

}  // namespace
}  // namespace covnoise
