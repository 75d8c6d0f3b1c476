// Training on images of a folder: what is drawn by the seed, and images that do not fit into memory.
#include "covnoise/core/internal/file.h"
#include "covnoise/train/internal/split.h"
#include "datasets/images.h"
#include "support/temporary_folder.h"
#include "train/small_run.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace covnoise {
namespace {

/// 48 training and 16 test images of 8x8 pixels in two classes.
void put_images(const std::filesystem::path& root) {
  for (int i = 0; i < 64; ++i) {
    const std::string split = i < 48 ? "train" : "test", name = i % 2 == 0 ? "even" : "odd";
    auto image = testing::plain(8, 8, {static_cast<std::uint8_t>(3 * i)});
    image.pixels[static_cast<std::size_t>(i)] = 255;
    testing::put_png(root / split / name / (std::to_string(100 + i) + ".png"), image);
  }
}

Config folder_config(const std::filesystem::path& root, const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = {"model=mlp",
                                       "data=folder:" + root.string(),
                                       "train.batch=16",
                                       "train.ghost_batch=16",
                                       "train.micro_batch=16",
                                       "train.epochs=2",
                                       "train.lr=0.01",
                                       "data.augment=on",
                                       "train.log_every=1",
                                       "run.device=" + testing::device_name(),
                                       "run.deterministic=true"};
  settings.insert(settings.end(), more.begin(), more.end());
  auto config = load_config({}, settings);
  resolve_defaults(config);
  return config;
}

/// Shades of the images, which tell them apart.
at::Tensor shades(const Loader& loader, const DataSource& source) {
  const auto images = loader.plain_images(at::arange(loader.size())).cpu();
  return (images.flatten(1).amin(1) * source.std[0] + source.mean[0]).mul(255).round().to(at::kLong);
}

TEST(FolderTraining, HoldsOutDrawnExamples) {
  const testing::TemporaryFolder folder;
  put_images(folder.path());
  const auto source = known_data_sets()("folder:" + folder.path().string());
  const auto held_out = [&](const std::string& seed) {
    const auto split = make_split(source, folder_config(folder.path(), {"data.holdout=12", "seed=" + seed}));
    EXPECT_EQ(split.train.size(), 36);
    const auto all = at::cat({shades(split.train, source), shades(*split.validation, source)});
    EXPECT_TRUE(std::get<0>(all.sort()).equal(at::arange(48) * 3)) << "an example is missing or held out twice";
    const auto odd = split.validation->labels(at::arange(12)).sum().item<int>();
    EXPECT_GT(odd, 0);
    EXPECT_LT(odd, 12);  // the tail would have been of one class
    return shades(*split.validation, source);
  };
  EXPECT_TRUE(held_out("0").equal(held_out("0")));
  EXPECT_FALSE(held_out("0").equal(held_out("1")));
  const auto limited = make_split(source, folder_config(folder.path(), {"data.train_limit=24", "data.test_limit=8"}));
  EXPECT_GT(limited.train.labels(at::arange(24)).sum().item<int>(), 0);
  EXPECT_LT(limited.train.labels(at::arange(24)).sum().item<int>(), 24);
  EXPECT_GT(limited.test.labels(at::arange(8)).sum().item<int>(), 0);
}

/// Images in memory, images read from disk, and the same interrupted: the same weights and metrics.
TEST(FolderTraining, ReadingFromDiskDoesNotChangeTheTraining) {
  const testing::TemporaryFolder folder;
  put_images(folder / "images");
  TrainOptions options;
  options.data = known_data_sets();
  std::vector<std::string> lines;
  options.say = [&](const std::string& line) { lines.push_back(line); };
  const auto weights = [&](const std::string& out, const std::string& memory, std::int64_t interrupted_after) {
    options.out = folder / out;
    options.config = folder_config(folder / "images", {"data.holdout=16", "data.memory=" + memory});
    std::int64_t steps = 0;
    options.stop_requested = [&] { return ++steps == interrupted_after; };
    if (interrupted_after > 0) {
      EXPECT_EQ(train(options), Outcome::kInterrupted);
    }
    options.stop_requested = [] { return false; };
    EXPECT_EQ(train(options), Outcome::kFinished);
    return read_file(options.out / "checkpoints/step-00000004/model.safetensors");
  };
  const std::string kept = weights("kept", "4", 0);
  EXPECT_THAT(lines, Not(Contains(::testing::HasSubstr("read from disk"))));
  EXPECT_EQ(weights("streamed", "0", 0), kept);
  EXPECT_THAT(lines, Contains(::testing::HasSubstr("read from disk")));
  EXPECT_EQ(weights("interrupted", "0", 3), kept);
  options.out = folder / "kept";  // where the images are is not a difference
  EXPECT_EQ(train(options), Outcome::kFinishedBefore);
}

}  // namespace
}  // namespace covnoise
