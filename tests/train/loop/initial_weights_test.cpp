#include "train/loop/initial_weights.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/digest.h"
#include "covnoise/core/internal/file.h"
#include "support/temporary_folder.h"
#include "train/small_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class InitialWeights : public ::testing::Test {
 protected:
  InitialWeights() : model_(make_model("resnet8", {{3, 32, 32}, 10, 0})) {
    at::manual_seed(1);
    for (const auto& [name, tensor] : model_tensors(*model_)) file_.tensors.emplace_back(name, at::randn_like(tensor));
  }
  std::string load(bool partial = false) {
    write_safetensors(folder_ / "w.safetensors", file_);
    TrainConfig train;
    train.init = (folder_ / "w.safetensors").string();
    train.init_sha256 = sha256_hex_of_file(train.init);
    train.init_partial = partial;
    return load_initial_weights(*model_, train);
  }
  at::Tensor tensor(const std::string& wanted) {
    for (const auto& [name, tensor] : model_tensors(*model_))
      if (name == wanted) return tensor;
    throw Error("no tensor " + wanted);
  }
  void drop(const std::string& name) {
    auto& all = file_.tensors;
    all.erase(std::remove_if(all.begin(), all.end(), [&](const auto& item) { return item.first == name; }), all.end());
  }
  testing::TemporaryFolder folder_;
  std::shared_ptr<Model> model_;
  TensorFile file_;
};

TEST_F(InitialWeights, TakesEveryTensorBitForBitInAnyOrder) {
  std::reverse(file_.tensors.begin(), file_.tensors.end());
  file_.tensors.emplace_back("bn1.num_batches_tracked", at::ones({}, at::kLong));
  EXPECT_THAT(load(), HasSubstr(" tensors are those of "));
  for (const auto& [name, stored] : file_.tensors) {
    if (name == "bn1.num_batches_tracked") continue;
    EXPECT_TRUE(tensor(name).equal(stored)) << name;
  }
}

TEST_F(InitialWeights, RefusesOtherNamesAndShapes) {
  const auto before = tensor("conv1.weight").clone();
  drop("bn1.bias");
  file_.tensors.emplace_back("head.weight", at::zeros({2}));
  drop("fc.weight");
  file_.tensors.emplace_back("fc.weight", at::zeros({100, 64}));
  EXPECT_THAT(
      [&] { load(); },
      ThrowsMessage<Error>(AllOf(HasSubstr("does not match the network; missing: bn1.bias; of another shape: fc.weight "
                                           "[100, 64] instead of [10, 64]; not in the network: head.weight; "),
                                 HasSubstr("--init-partial takes what matches"))));
  EXPECT_TRUE(tensor("conv1.weight").equal(before)) << "something was loaded all the same";
  const auto bias = tensor("bn1.bias").clone(), weight = tensor("fc.weight").clone();
  EXPECT_THAT(load(/*partial=*/true), HasSubstr("; missing: bn1.bias; of another shape: fc.weight"));
  EXPECT_FALSE(tensor("conv1.weight").equal(before));
  EXPECT_TRUE(tensor("bn1.bias").equal(bias));
  EXPECT_TRUE(tensor("fc.weight").equal(weight));
  file_.tensors = {{"head.weight", at::zeros({2})}};
  EXPECT_THAT([&] { load(true); }, ThrowsMessage<Error>(HasSubstr("has no tensor of the network")));
}

TEST_F(InitialWeights, WidensButNeverNarrows) {
  for (auto& [name, stored] : file_.tensors) stored = stored.to(at::kHalf);
  load();
  for (const auto& [name, stored] : file_.tensors) EXPECT_TRUE(tensor(name).equal(stored.to(at::kFloat))) << name;
  for (auto& [name, stored] : file_.tensors) stored = stored.to(at::kDouble);
  EXPECT_THAT([&] { load(true); },
              ThrowsMessage<Error>(HasSubstr("has elements of type Double, the network of type Float")));
}

/// The run records file and checksum, starts from those weights, and is resumed without the file.
TEST(Train, StartsFromInitialWeightsAndIsResumedWithoutThem) {
  const testing::TemporaryFolder folder;
  TrainOptions options = testing::small_run("sb", "mlp");
  options.out = folder / "first";
  options.config.train.snapshot_every = 4;
  ASSERT_EQ(train(options), Outcome::kFinished);
  const auto file = folder / "w.safetensors";
  std::filesystem::copy_file(options.out / "checkpoints/step-00000004/model.safetensors", file);
  options.out = folder / "second";
  options.config.train.init = file.string();
  resolve_defaults(options.config);
  EXPECT_EQ(options.config.train.init_sha256, sha256_hex_of_file(file));
  std::int64_t steps = 0;
  options.stop_requested = [&] { return ++steps == 3; };
  ASSERT_EQ(train(options), Outcome::kInterrupted);
  const auto start = read_safetensors(options.out / "snapshots/step-00000000.safetensors").tensors;
  const auto given = read_safetensors(file).tensors;
  ASSERT_EQ(start.size(), given.size());
  for (std::size_t i = 0; i < start.size(); ++i) EXPECT_TRUE(start[i].second.equal(given[i].second)) << start[i].first;
  EXPECT_EQ(read_config(options.out / "config.toml").train.init_sha256, options.config.train.init_sha256);
  std::filesystem::remove(file);
  options.stop_requested = [] { return false; };
  EXPECT_EQ(train(options), Outcome::kFinished);
  options.out = folder / "third";
  EXPECT_THAT([&] { train(options); }, ThrowsMessage<Error>(HasSubstr("w.safetensors")));
  write_file_synced(file, "something else");
  EXPECT_THAT([&] { train(options); }, ThrowsMessage<Error>(HasSubstr("it is not the file the run was started with")));
  options.config.train.init_sha256.clear();
  options.config.train.init.clear();
  options.config.train.init_partial = true;
  EXPECT_THAT([&] { train(options); }, ThrowsMessage<Error>(HasSubstr("need train.init")));
}

TEST(Train, AveragesFromTheInitialWeights) {
  const testing::TemporaryFolder folder;
  TrainOptions options = testing::small_run("sb", "mlp");
  options.out = folder / "first";
  ASSERT_EQ(train(options), Outcome::kFinished);
  options.config.train.init = (options.out / "checkpoints/step-00000004/model.safetensors").string();
  options.config.train.ema = 0.9;
  options.config.train.snapshot_every = 4;
  options.out = folder / "second";
  resolve_defaults(options.config);
  ASSERT_EQ(train(options), Outcome::kFinished);
  const auto average = read_safetensors(options.out / "snapshots/step-00000000.safetensors").tensors;
  const auto given = read_safetensors(options.config.train.init).tensors;
  for (std::size_t i = 0; i < given.size(); ++i)
    EXPECT_TRUE(average[i].second.equal(given[i].second)) << given[i].first;
}

}  // namespace
}  // namespace covnoise
