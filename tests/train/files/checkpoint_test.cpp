#include "covnoise/train/internal/checkpoint.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "support/file_size_limit.h"
#include "support/temporary_folder.h"

namespace covnoise {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void no_warning(const std::string& text) { ADD_FAILURE() << text; }

/// A small one that differs from step to step.
Checkpoint checkpoint_of(std::int64_t step) {
  const auto value = static_cast<double>(step);
  return {
      {{"conv.weight", at::full({2, 3}, value, at::kFloat)}, {"bn.num_batches_tracked", at::full({}, step, at::kLong)}},
      {{"momentum", at::full({6}, -value, at::kFloat)}},
      {{"best_accuracy", 0.1 + value}, {"epoch", step / 10}, {"list", {1, 2, 3}}}};
}

bool same(const Checkpoint& a, const Checkpoint& b) {
  const auto equal = [](const std::vector<NamedTensor>& x, const std::vector<NamedTensor>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const NamedTensor& p, const NamedTensor& q) {
      return p.first == q.first && p.second.scalar_type() == q.second.scalar_type() && at::equal(p.second, q.second);
    });
  };
  return equal(a.model, b.model) && equal(a.optimizer, b.optimizer) && a.state == b.state;
}

/// Relative names and bytes of everything below a folder.
std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> result;
  for (const auto& item : fs::recursive_directory_iterator(folder)) {
    result[item.path().lexically_relative(folder).string()] = item.is_regular_file() ? read_file(item.path()) : "";
  }
  return result;
}

std::set<std::string> names(const fs::path& folder) {
  std::set<std::string> result;
  for (const auto& item : fs::directory_iterator(folder)) result.insert(item.path().filename().string());
  return result;
}

void overwrite(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// In place: a file that is cut and written again is synced by some file systems, which takes its time.
void replace_byte(const fs::path& path, std::size_t position, char byte) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(position)).put(byte);
}

class CheckpointTest : public ::testing::Test {
 protected:
  void save(std::int64_t step, bool scheduled = true, std::optional<std::int64_t> best = {}) {
    store_.save(checkpoint_of(step), step, scheduled, best);
  }
  testing::TemporaryFolder folder_;
  CheckpointStore store_{folder_ / "checkpoints"};
};

TEST_F(CheckpointTest, ComesBackExactly) {
  EXPECT_FALSE(store_.load_latest(no_warning).has_value());
  save(1234, true, 1234);
  const auto loaded = store_.load_latest(no_warning);
  ASSERT_TRUE(loaded.has_value());
  EXPECT_TRUE(same(loaded->checkpoint, checkpoint_of(1234)));
  EXPECT_EQ(loaded->step, 1234);
  EXPECT_EQ(loaded->best_step, 1234);
  EXPECT_TRUE(loaded->scheduled);
  EXPECT_EQ(loaded->path, folder_ / "checkpoints" / "step-00001234");
  EXPECT_THAT(names(loaded->path),
              ElementsAre("SHA256SUMS", "model.safetensors", "optimizer.safetensors", "state.json"));
}

TEST_F(CheckpointTest, SumsAreThoseOfSha256sum) {
  save(5);
  const std::string command =
      "cd '" + (store_.folder() / "step-00000005").string() + "' && sha256sum -c --quiet --strict SHA256SUMS";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST_F(CheckpointTest, SameStateSameBytes) {
  CheckpointStore other(folder_ / "other");
  save(7, true, 7);
  other.save(checkpoint_of(7), 7, true, 7);
  EXPECT_EQ(contents(store_.folder()), contents(other.folder()));
}

TEST_F(CheckpointTest, KeepsTheLastTwoAndTheBest) {
  save(10, true, 10);
  save(20, true, 20);
  save(30, true, 20);
  EXPECT_THAT(names(store_.folder()), ElementsAre("step-00000020", "step-00000030"));
  save(40, true, 20);
  save(50, true, 20);
  EXPECT_THAT(names(store_.folder()), ElementsAre("step-00000020", "step-00000040", "step-00000050"));
  EXPECT_EQ(store_.load_best(no_warning)->step, 20);
  EXPECT_EQ(store_.load_latest(no_warning)->step, 50);
  save(60, true, 60);
  EXPECT_THAT(names(store_.folder()), ElementsAre("step-00000050", "step-00000060"));
}

TEST_F(CheckpointTest, AnInterruptionLeavesNoTrace) {
  CheckpointStore undisturbed(folder_ / "undisturbed");
  for (const std::int64_t step : {10, 20, 30}) undisturbed.save(checkpoint_of(step), step, true, 10);
  save(10, true, 10);
  save(14, false, 10);
  save(17, false, 10);
  EXPECT_THAT(names(store_.folder()), ElementsAre("step-00000010", "step-00000017-interrupted"));
  EXPECT_FALSE(store_.load_latest(no_warning)->scheduled);
  save(20, true, 10);
  save(20, false, 10);
  save(25, false, 10);
  EXPECT_THAT(names(store_.folder()), ElementsAre("step-00000010", "step-00000020", "step-00000025-interrupted"));
  save(30, true, 10);
  EXPECT_EQ(contents(store_.folder()), contents(undisturbed.folder()));
}

TEST_F(CheckpointTest, NoFlippedBitIsLoadedSilently) {
  save(1000, true, 1000);
  const auto folder = store_.list().at(0).path;
  const auto good = contents(folder);
  std::vector<std::pair<std::string, std::size_t>> bytes;
  for (const auto& [name, data] : good) {
    for (std::size_t i = 0; i < data.size(); ++i) bytes.emplace_back(name, i);
  }
  std::mt19937 random(3);
  for (int i = 0; i < 1000; ++i) {
    const auto& [name, position] = bytes[random() % bytes.size()];
    const char byte = good.at(name)[position];
    replace_byte(folder / name, position, static_cast<char>(byte ^ (1 << random() % 8)));
    EXPECT_THROW(CheckpointStore::load(folder), Error) << name << " byte " << position;
    replace_byte(folder / name, position, byte);
  }
  EXPECT_TRUE(same(CheckpointStore::load(folder).checkpoint, checkpoint_of(1000)));
}

TEST_F(CheckpointTest, NoShortFileIsLoadedSilently) {
  save(1000, true, 1000);
  const auto folder = store_.list().at(0).path;
  const auto good = contents(folder);
  std::mt19937 random(4);
  for (int i = 0; i < 200; ++i) {
    const auto& [name, data] = *std::next(good.begin(), random() % good.size());
    overwrite(folder / name, data.substr(0, random() % data.size()));
    EXPECT_THROW(CheckpointStore::load(folder), Error) << name;
    overwrite(folder / name, data);
  }
  for (const auto& [name, data] : good) {
    fs::remove(folder / name);
    EXPECT_THROW(CheckpointStore::load(folder), Error) << name;
    overwrite(folder / name, data);
  }
}

TEST_F(CheckpointTest, UsesTheOneBeforeADamagedOne) {
  save(10);
  save(20);
  overwrite(store_.folder() / "step-00000020" / "model.safetensors", "x");
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& text) { warnings.push_back(text); };
  const auto loaded = store_.load_latest(warn);
  EXPECT_EQ(loaded->step, 10);
  EXPECT_THAT(warnings,
              ElementsAre(HasSubstr(
                  "step-00000020 is damaged: model.safetensors does not match its checksum; trying the previous one")));
  store_.clean(*loaded);
  save(20);
  EXPECT_EQ(store_.load_latest(no_warning)->step, 20);
  EXPECT_THAT(names(store_.folder()), ElementsAre("step-00000010", "step-00000020"));
}

TEST_F(CheckpointTest, GoingOnFromAnOlderOneForgetsTheLaterOnes) {
  save(10);
  save(20);
  overwrite(store_.folder() / "step-00000020" / "state.json", "{}");
  save(15, false);
  EXPECT_THAT(names(store_.folder()), ElementsAre("step-00000010", "step-00000015-interrupted"));
}

TEST_F(CheckpointTest, NoneWholeIsAnError) {
  save(10);
  fs::remove(store_.folder() / "step-00000010" / "SHA256SUMS");
  EXPECT_THAT([&] { store_.load_latest([](const std::string&) {}); },
              ThrowsMessage<Error>(HasSubstr("no checkpoint in")));
}

TEST_F(CheckpointTest, ARenamedOneIsRefused) {
  save(10);
  fs::rename(store_.folder() / "step-00000010", store_.folder() / "step-00000011");
  EXPECT_THAT([&] { CheckpointStore::load(store_.folder() / "step-00000011" / ""); },
              ThrowsMessage<Error>(HasSubstr("it belongs to step 10")));
}

TEST_F(CheckpointTest, LeftoversOfAKilledSaveAreIgnoredAndRemoved) {
  save(10);
  save(20);
  const auto expected = contents(store_.folder());
  fs::copy(store_.folder() / "step-00000020", store_.folder() / ".step-00000030.tmp");
  fs::copy(store_.folder() / "step-00000020", store_.folder() / ".step-00000005.old");
  fs::create_directory(store_.folder() / "step-5");
  EXPECT_EQ(store_.list().size(), 2U);
  store_.clean(*store_.load_latest(no_warning));
  EXPECT_TRUE(fs::remove(store_.folder() / "step-5"));  // not ours: left alone
  EXPECT_EQ(contents(store_.folder()), expected);
}

TEST_F(CheckpointTest, KilledBeforeTheOldOnesWereRemoved) {
  save(10, true, 10);
  const testing::TemporaryFolder aside;
  save(20, true, 20);
  fs::copy(store_.folder() / "step-00000010", aside / "10");
  save(30, true, 20);
  const auto expected = contents(store_.folder());
  fs::copy(aside / "10", store_.folder() / "step-00000010");
  store_.clean(*store_.load_latest(no_warning));
  EXPECT_EQ(contents(store_.folder()), expected);
}

TEST_F(CheckpointTest, AFullDiskLeavesTheOldOnesIntact) {
  save(10);
  const auto before = contents(store_.folder());
  auto large = checkpoint_of(20);
  large.optimizer.emplace_back("more", at::zeros({10000}));
  {
    const testing::FileSizeLimit limit(20000);
    EXPECT_THAT([&] { store_.save(large, 20, true, 20); },
                ThrowsMessage<Error>(HasSubstr("optimizer.safetensors: File too large")));
  }
  EXPECT_EQ(contents(store_.folder()), before);
  store_.save(large, 20, true, 20);
  EXPECT_TRUE(same(store_.load_latest(no_warning)->checkpoint, large));
}

TEST_F(CheckpointTest, AnUnwritableFolderIsOneLine) {
  overwrite(folder_ / "file", "");
  CheckpointStore store(folder_ / "file" / "checkpoints");
  EXPECT_THAT([&] { store.save(checkpoint_of(1), 1, true, {}); }, ThrowsMessage<Error>(HasSubstr("Not a directory")));
}

TEST_F(CheckpointTest, RefusesAStateThatWouldNotComeBack) {
  auto bad = checkpoint_of(1);
  bad.state["loss"] = std::nan("");
  EXPECT_THROW(store_.save(bad, 1, true, {}), c10::Error);
  EXPECT_FALSE(fs::exists(store_.folder()));
}

}  // namespace
}  // namespace covnoise
