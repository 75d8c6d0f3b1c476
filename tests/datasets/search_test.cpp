#include "covnoise/datasets/search.h"
#include "covnoise/datasets/catalog.h"

#include "datasets/formats/pickles.h"
#include "datasets/sets.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <optional>

namespace covnoise::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Sets an environment variable while this object exists.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  ~Environment() {
    if (old_)
      ::setenv(name_, old_->c_str(), 1);
    else
      ::unsetenv(name_);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

class Search : public ::testing::Test {
 protected:
  fs::path found(const std::string& directory) {
    const auto files = find_files(set_, {directory.empty() ? fs::path() : folder_ / directory});
    return files ? fs::relative(files->folder, folder_.path()) : fs::path();
  }
  TemporaryFolder folder_;
  Environment home_{"HOME", (folder_ / "home").string()}, variable_{"COVNOISE_DATA", (folder_ / "variable").string()};
  const TinyIdx tiny_;
  const FileSet set_ = tiny_.set();
};

TEST_F(Search, FoldersInOrder) {
  const auto places = data_search_places({});
  ASSERT_GE(places.size(), 3U);
  EXPECT_EQ(places[0], folder_ / "variable");
  EXPECT_EQ(places[1], "data");
  EXPECT_EQ(places.back(), folder_ / "home/.cache/torchvision");
}

/// Data from elsewhere would not be the data that the user named.
TEST_F(Search, AGivenFolderIsTheOnlyOne) {
  EXPECT_THAT(data_search_places({"given"}), ElementsAre("given"));
  tiny_.write_plain(folder_ / "variable/Tiny/raw");
  EXPECT_EQ(found("given"), "");
}

TEST_F(Search, TakesTheFirstFolder) {
  EXPECT_EQ(found(""), "");
  tiny_.write_plain(folder_ / "home/data/Tiny/raw");
  EXPECT_EQ(found(""), "home/data/Tiny/raw");
  tiny_.write_plain(folder_ / "variable/Tiny/raw");
  EXPECT_EQ(found(""), "variable/Tiny/raw");
  tiny_.write_plain(folder_ / "given/Tiny/raw");
  EXPECT_EQ(found("given"), "given/Tiny/raw");
}

TEST_F(Search, KnowsTheLayouts) {
  for (const char* below : {"a/Tiny/raw", "b/raw", "c/tiny", "d"}) {
    tiny_.write_packed(folder_ / below);
    EXPECT_EQ(found(fs::path(below).begin()->string()), below);
  }
}

TEST_F(Search, PrefersUnpackedFiles) {
  tiny_.write_packed(folder_ / "d");
  write_bytes(folder_ / "d/train-images", tiny_.files[0].second);
  const FoundFiles files = require_files(set_, {folder_ / "d"});
  EXPECT_THAT(files.train, ElementsAre(folder_ / "d/train-images", folder_ / "d/train-labels.gz"));
}

TEST_F(Search, ErrorListsTheFolders) {
  tiny_.write_plain(folder_ / "d");
  fs::remove(folder_ / "d/test-labels");
  const std::string message = error_of([&] { require_files(set_, {folder_ / "d"}); });
  EXPECT_THAT(message,
              AllOf(HasSubstr("tiny was not found in " + (folder_ / "d").string()), HasSubstr("Tiny/raw"),
                    ::testing::Not(HasSubstr((folder_ / "variable").string())),
                    HasSubstr((folder_ / "d").string() + " lacks test-labels"), HasSubstr("`covnoise data fetch tiny`"),
                    HasSubstr("--data-dir or the variable COVNOISE_DATA")));
}

TEST_F(Search, DoesNotTakeOneSetForAnother) {
  TinyIdx twin;
  twin.files[3].second = idx_labels({1, 2});
  FileSet other = twin.set();
  other.summary.name = "other";
  other.layouts[0].folder = "Other/raw";
  const std::vector<FileSet> known{set_, other};
  for (const bool pack : {false, true}) {
    const fs::path place = folder_ / (pack ? "p" : "d");
    pack ? twin.write_packed(place) : twin.write_plain(place);
    EXPECT_FALSE(find_files(set_, {place}, known));
    EXPECT_TRUE(find_files(other, {place}, known));
  }
  twin.write_plain(folder_ / "e/Tiny/raw");  // the folder name tells which one it is
  EXPECT_TRUE(find_files(set_, {folder_ / "e"}, known));
}

TEST_F(Search, LoadsWhatItFinds) {
  tiny_.write_packed(folder_ / "variable/Tiny/raw");
  const DataSource source = load_files(set_, {});
  EXPECT_EQ(source.name, "tiny");
  EXPECT_TRUE(source.train.images.equal(torch::arange(18, torch::kByte).reshape({3, 1, 2, 3})));
  EXPECT_TRUE(source.test.labels.equal(torch::tensor({2, 1}, torch::kLong)));
  EXPECT_THAT(source.classes, ElementsAre("a", "b", "c"));
}

TEST_F(Search, RefusesAnotherImageSize) {
  tiny_.write_plain(folder_ / "d");
  write_bytes(folder_ / "d/train-images", idx_images(3, 3, 2));
  EXPECT_THAT(error_of([&] { load_files(set_, {folder_ / "d"}); }),
              HasSubstr("train-images: images of 1x3x2, but those of tiny have 1x2x3"));
}

TEST_F(Search, LoadsCifarInBothForms) {
  const auto python = [&](const std::string& name) {
    write_bytes(folder_ / "p/cifar-10-batches-py" / name, pickled_batch("labels", {4, 2}, 3072));
  };
  for (int i = 1; i <= 5; ++i) python("data_batch_" + std::to_string(i));
  python("test_batch");
  const std::string records = '\4' + ramp(3072) + '\2' + ramp(3072);
  for (int i = 1; i <= 5; ++i)
    write_bytes(folder_ / ("b/cifar-10-batches-bin/data_batch_" + std::to_string(i) + ".bin"), records);
  write_bytes(folder_ / "b/cifar-10-batches-bin/test_batch.bin", records);
  const FileSet& set = file_sets()[2];
  const auto read = [&](const char* below) {
    const FoundFiles found = require_files(set, {folder_ / below});
    return std::pair(read_files(*found.layout, found.train, set), read_files(*found.layout, found.test, set));
  };
  const auto [train, test] = read("p");
  const auto [binary_train, binary_test] = read("b");
  EXPECT_EQ(train.images.size(0), 10);
  EXPECT_TRUE(train.images.equal(binary_train.images) && test.images.equal(binary_test.images));
  EXPECT_TRUE(train.labels.equal(binary_train.labels) && test.labels.equal(binary_test.labels));
  EXPECT_THAT(error_of([&] { load_data("cifar10", {folder_ / "b"}); }),
              AllOf(HasSubstr("data_batch_1.bin: SHA-256 is"), HasSubstr("run `covnoise data fetch cifar10`")));
}

TEST(Registry, KnowsItsNames) {
  const auto names = data_names();
  for (const char* name : {"mnist", "fashion-mnist", "cifar10", "cifar100"})
    EXPECT_THAT(names, ::testing::Contains(name));
  EXPECT_THAT(
      error_of([] { load_data("minst", {}); }),
      AllOf(HasSubstr("unknown data set 'minst'"), HasSubstr("mnist, fashion-mnist"), HasSubstr("folder:PATH")));
  for (const FileSet& set : file_sets()) EXPECT_EQ(static_cast<std::int64_t>(set.classes.size()), set.summary.classes);
}

TEST(Registry, ListsWhatIsHere) {
  TemporaryFolder folder;
  for (const char* name : {"train.bin", "test.bin"}) write_bytes(folder / "cifar-100-binary" / name, "x");
  for (const DataSummary& row : list_data({folder.path()})) {
    if (row.name != "cifar100") continue;
    EXPECT_EQ(row.where, (folder / "cifar-100-binary").string());
  }
}

}  // namespace
}  // namespace covnoise::testing
