#include "datasets/fetch/download.h"
#include "datasets/sets.h"
#include "support/http_server.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>

namespace covnoise::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Fetches one packed file of 100 kB, "big.gz", from its own server.
class Fetch : public ::testing::Test {
 protected:
  Fetch() {
    content_ = packed(noise());
    server_.files["/big.gz"] = content_;
    Layout layout{Layout::Form::kIdx, "Tiny/raw", {{"big", "", sha256_text(content_)}}, {}};
    set_ = {{"tiny", 1, 2, 3, 3, 3, 2, ""}, {}, false, {layout}, {server_.url()}, packed_files(layout), ""};
  }
  static std::string noise() {
    std::string bytes(100'000, '\0');
    std::uint32_t state = 1;
    for (char& c : bytes) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
    return bytes;
  }
  std::string fetch() {
    events_.clear();
    return error_of([&] {
      fetch_files(set_, {folder_.path(), mirror_, [&](const FetchEvent& e) { events_.push_back(e); }});
    });
  }
  std::string kinds() const {  // without kBytes: curl decides how many there are
    std::string out;
    for (const FetchEvent& e : events_) {
      if (e.kind != FetchEvent::Kind::kBytes) out += "PS?FI"[static_cast<int>(e.kind)];
    }
    return out;
  }

  TemporaryFolder folder_;
  HttpServer server_;
  std::string content_, mirror_;
  FileSet set_;
  std::vector<FetchEvent> events_;
  const fs::path target_ = folder_ / "Tiny/raw/big.gz", part_ = folder_ / "Tiny/raw/big.gz.part";
};

TEST_F(Fetch, InstallsAndThenLeavesAlone) {
  EXPECT_EQ(fetch(), "");
  EXPECT_EQ(kinds(), "SI");
  EXPECT_EQ(read_bytes(target_), content_);
  EXPECT_FALSE(fs::exists(part_));
  EXPECT_EQ(fetch(), "");
  EXPECT_EQ(kinds(), "P");
  EXPECT_THAT(server_.requests(), ElementsAre("/big.gz"));
}

TEST_F(Fetch, ReportsItsProgress) {
  EXPECT_EQ(fetch(), "");
  std::uint64_t last = 0;
  for (const FetchEvent& e : events_) {
    if (e.kind != FetchEvent::Kind::kBytes) continue;
    EXPECT_GE(e.done, last);
    EXPECT_EQ(e.total, content_.size());
    last = e.done;
  }
  EXPECT_EQ(last, content_.size());
}

TEST_F(Fetch, ResumesAfterACut) {
  server_.cut_after = 40'000;
  EXPECT_THAT(fetch(), AllOf(HasSubstr("40000 bytes are kept in"), HasSubstr("repeat the command to resume")));
  EXPECT_EQ(read_bytes(part_), content_.substr(0, 40'000));
  EXPECT_FALSE(fs::exists(target_));
  EXPECT_EQ(fetch(), "");
  EXPECT_EQ(read_bytes(target_), content_);
  EXPECT_THAT(server_.requests(), ElementsAre("/big.gz", "/big.gz from 40000"));
}

TEST_F(Fetch, StartsOverIfRangesAreIgnored) {
  server_.ignore_range = true;
  write_bytes(part_, content_.substr(0, 70'000));
  EXPECT_EQ(fetch(), "");
  EXPECT_EQ(read_bytes(target_), content_);
  EXPECT_THAT(server_.requests(), ElementsAre("/big.gz from 70000"));
}

TEST_F(Fetch, InstallsAPartThatIsWhole) {
  write_bytes(part_, content_);
  EXPECT_EQ(fetch(), "");
  EXPECT_EQ(read_bytes(target_), content_);
}

TEST_F(Fetch, DeletesAPartThatIsTooLong) {
  write_bytes(part_, content_ + "more");
  EXPECT_EQ(fetch(), "");
  EXPECT_EQ(read_bytes(target_), content_);
  EXPECT_THAT(server_.requests(), ElementsAre("/big.gz from " + std::to_string(content_.size() + 4), "/big.gz"));
}

TEST_F(Fetch, DeletesAPartOfAnotherFile) {
  write_bytes(part_, ramp(50'000));
  EXPECT_EQ(fetch(), "");
  EXPECT_EQ(read_bytes(target_), content_);
}

TEST_F(Fetch, RefusesAnotherRangeThanAskedFor) {
  server_.shift_range = 1;
  write_bytes(part_, content_.substr(0, 50'000));
  EXPECT_THAT(fetch(), HasSubstr("50000 bytes are kept"));
  EXPECT_EQ(read_bytes(part_), content_.substr(0, 50'000));
}

TEST_F(Fetch, RefusesAWrongChecksum) {
  server_.files["/big.gz"][1000] ^= 1;
  EXPECT_THAT(fetch(),
              AllOf(HasSubstr("big.gz: SHA-256 is "), HasSubstr(sha256_text(content_)), HasSubstr("--mirror")));
  EXPECT_FALSE(fs::exists(target_));
  EXPECT_FALSE(fs::exists(part_));
}

TEST_F(Fetch, ReplacesADamagedFile) {
  write_bytes(target_, "damaged");
  EXPECT_EQ(fetch(), "");
  EXPECT_EQ(read_bytes(target_), content_);
}

TEST_F(Fetch, ReportsAMissingPage) {
  server_.files.clear();
  EXPECT_THAT(fetch(), HasSubstr("/big.gz: the server answers 404"));
  EXPECT_FALSE(fs::exists(part_));
}

TEST_F(Fetch, KeepsThePartWhenThePageIsMissing) {
  write_bytes(part_, content_.substr(0, 100));
  server_.files.clear();
  EXPECT_THAT(fetch(), AllOf(HasSubstr("answers 404"), HasSubstr("100 bytes are kept")));
  EXPECT_EQ(read_bytes(part_).size(), 100U);
}

TEST_F(Fetch, TriesTheNextSite) {
  set_.sites = {server_.url("nowhere/"), server_.url()};
  EXPECT_EQ(fetch(), "");
  EXPECT_EQ(kinds(), "SFSI");
  EXPECT_EQ(read_bytes(target_), content_);
}

TEST_F(Fetch, TakesAMirror) {
  set_.sites = {"http://127.0.0.1:1/"};
  EXPECT_THAT(fetch(), HasSubstr("http://127.0.0.1:1/big.gz: "));
  mirror_ = server_.url("copy");
  server_.files["/copy/big.gz"] = content_;
  EXPECT_EQ(fetch(), "");
  EXPECT_THAT(server_.requests(), ElementsAre("/copy/big.gz"));
}

TEST_F(Fetch, RefusesOtherProtocols) {
  write_bytes(folder_ / "source/big.gz", content_);
  mirror_ = "file://" + (folder_ / "source").string();
  EXPECT_THAT(fetch(), HasSubstr("big.gz: "));
  EXPECT_FALSE(fs::exists(target_));
}

TEST_F(Fetch, ReportsAFolderThatCannotBeCreated) {
  write_bytes(folder_ / "Tiny", "a file");
  EXPECT_THAT(fetch(), HasSubstr("Tiny/raw: cannot be created"));
  EXPECT_THAT(server_.requests(), IsEmpty());
}

TEST_F(Fetch, RefusesMoreBytesThanAllowed) {
  const auto ignore = [](std::uint64_t, std::uint64_t) {};
  write_bytes(part_, "");
  EXPECT_THAT(error_of([&] { download(server_.url("big.gz"), part_, ignore, 50'000); }),
              HasSubstr("big.gz: more than 50000 bytes"));
  EXPECT_EQ(fs::file_size(part_), 0U);
  EXPECT_EQ(error_of([&] { download(server_.url("big.gz"), part_, ignore, content_.size()); }), "");
}

TEST(Download, LeavesHttpsOnlyForHttps) {
  EXPECT_EQ(redirect_protocols("https://host/file"), "https");
  EXPECT_EQ(redirect_protocols("HTTPS://host/file"), "https");
  EXPECT_EQ(redirect_protocols("http://host/file"), "http,https");
}

TEST(FetchArchive, UnpacksAndInstalls) {
  TemporaryFolder folder;
  HttpServer server;
  const TinyArchive tiny;
  server.files["/tiny.tar.gz"] = tiny.archive;
  fetch_files(tiny.set(), {folder.path(), server.url()});
  EXPECT_EQ(read_bytes(folder / "tiny-bin/train.bin"), tiny.train);
  EXPECT_EQ(read_bytes(folder / "tiny-bin/test.bin"), tiny.test);
  EXPECT_EQ(std::distance(fs::recursive_directory_iterator(folder.path()), {}), 3);  // and their folder
  fetch_files(tiny.set(), {folder.path(), server.url()});
  EXPECT_THAT(server.requests(), ElementsAre("/tiny.tar.gz"));
  fs::remove(folder / "tiny-bin/test.bin");
  fetch_files(tiny.set(), {folder.path(), server.url()});
  EXPECT_EQ(read_bytes(folder / "tiny-bin/test.bin"), tiny.test);
}

TEST(FetchArchive, RefusesMembersWithAWrongChecksum) {
  TemporaryFolder folder;
  HttpServer server;
  const TinyArchive tiny;
  FileSet set = tiny.set();
  set.layouts[0].test[0].sha256 = std::string(64, '0');
  server.files["/tiny.tar.gz"] = tiny.archive;
  EXPECT_THAT(error_of([&] {
                fetch_files(set, {folder.path(), server.url()});
              }),
              HasSubstr("'tiny-bin/test.bin' has the wrong SHA-256"));
  EXPECT_FALSE(fs::exists(folder / "tiny-bin/train.bin"));
}

TEST(FetchData, RefusesWhatNeedsNoDownload) {
  EXPECT_THAT(error_of([] { fetch_data("folder:x", {"d", ""}); }), HasSubstr("folder:x needs no download"));
  EXPECT_THAT(error_of([] {
                fetch_data("nonsense", {"d", ""});
              }),
              HasSubstr("unknown data set 'nonsense'; known: mnist, fashion-mnist, cifar10, cifar100"));
}

}  // namespace
}  // namespace covnoise::testing
