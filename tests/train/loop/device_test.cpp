// The same step everywhere: a batch's gradient and diagonal on the device of the tests against the CPU in double.
#include "support/device.h"
#include "covnoise/datasets/catalog.h"
#include "covnoise/nn/initialize.h"
#include "covnoise/noise/gradient_pass.h"
#include "covnoise/train/defaults.h"
#include "covnoise/train/internal/metrics.h"
#include "covnoise/train/internal/split.h"
#include "covnoise/train/trainer.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>

namespace covnoise {
namespace {

constexpr std::int64_t kBatch = 32, kGhostBatch = 8;

struct DeviceCase {
  std::string model, data, precision;
  Squares squares;
};

std::ostream& operator<<(std::ostream& out, const DeviceCase& test) {
  return out << test.model << " " << test.precision;
}

struct Batch {
  at::Tensor gradient, diagonal, running;
};

Batch pass(const DeviceCase& test, const std::string& device, const std::string& precision) {
  auto config = load_config(
      std::nullopt, {"model=" + test.model, "data=" + test.data, "run.device=" + device, "train.precision=" + precision,
                     "train.ghost_batch=8", "train.batch=32", "data.train_limit=64", "data.test_limit=10"});
  const auto source = load_data(test.data, {});
  const auto split = make_split(source, config);
  ModelOptions options;
  options.input = {source.train.images.size(1), source.train.images.size(2), source.train.images.size(3)};
  options.ghost_batch = kGhostBatch;
  const auto model = make_model(test.model, options);
  model->to(precision == "fp64" ? at::kDouble : at::kFloat);
  initialize(*model, 3);
  model->to(split.train.device());
  FlatParameters parameters(*model);
  GradientPass pass(*model, [&](const at::Tensor& x) { return model->forward(x); }, parameters, {kGhostBatch, {}});
  Needs needs;
  needs.squares = test.squares;
  pass.begin({needs});
  const auto indices = split.train.order(0).narrow(0, 0, kBatch);
  pass.add(split.train.images(indices, 0), split.train.labels(indices));
  const auto statistics = pass.finish();
  std::vector<at::Tensor> buffers = {at::zeros({1}, at::kDouble)};
  for (const auto& buffer : model->buffers()) buffers.push_back(buffer.cpu().to(at::kDouble).flatten());
  return {statistics.gradient.cpu().to(at::kDouble), statistics.diagonal.cpu().to(at::kDouble), at::cat(buffers)};
}

double error(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).norm().item<double>() / (b.norm().item<double>() + 1e-30);
}

class DeviceTest : public ::testing::TestWithParam<DeviceCase> {};

TEST_P(DeviceTest, GradientAndDiagonalAreThoseOfDoublePrecision) {
  const bool low = GetParam().precision != "fp32";
  const bool large = GetParam().model == "alexnet" || GetParam().model == "vgg11";
  if (testing::device().is_cpu() && (low || large)) GTEST_SKIP() << "of a GPU";
  const auto expected = pass(GetParam(), "cpu", "fp64");
  const auto actual = pass(GetParam(), testing::device_name(), GetParam().precision);
  // A ReLU that rounding turns on or off moves more than rounding itself, most in the deepest network.
  const bool deepest = GetParam().model == "vgg11";
  EXPECT_LT(error(actual.gradient, expected.gradient), low ? 0.1 : deepest ? 5e-3 : 1e-3);
  EXPECT_LT(error(actual.diagonal, expected.diagonal), low ? 0.15 : 2e-3);
  EXPECT_LT(error(actual.running, expected.running), low ? 0.02 : 1e-5);
}

std::vector<DeviceCase> device_cases() {
  std::vector<DeviceCase> cases;
  for (const std::string precision : {"fp32", "tf32", "bf16"})
    for (const auto squares : {Squares::kExact, Squares::kGhost, Squares::kSpatial})
      for (const auto& [model, data] : std::vector<std::pair<std::string, std::string>>{{"mlp", "glyphs"},
                                                                                        {"lenet", "glyphs"},
                                                                                        {"alexnet", "textures"},
                                                                                        {"resnet8", "textures"},
                                                                                        {"vgg11", "textures"}}) {
        // Deep networks with ReLUs amplify the rounding of low precision: the shallow ones tell.
        if (precision != "fp32" && (model == "alexnet" || model == "vgg11")) continue;
        cases.push_back({model, data, precision, squares});
      }
  return cases;
}

std::string case_name(const ::testing::TestParamInfo<DeviceCase>& info) {
  const char* names[] = {"None", "Exact", "Ghost", "Spatial"};
  return info.param.model + "_" + info.param.precision + "_" + names[static_cast<int>(info.param.squares)];
}

INSTANTIATE_TEST_SUITE_P(Networks, DeviceTest, ::testing::ValuesIn(device_cases()), case_name);

/// A run resumes on the device it is told: half on the tests' device, half on the CPU.
TEST(Device, ARunMovesToTheCpu) {
  const testing::TemporaryFolder folder;
  TrainOptions options;
  options.data = known_data_sets();
  options.config = load_config(
      std::nullopt, {"model=resnet8", "data=textures", "regime=lb-diag", "train.batch=64", "train.lr=0.05",
                     "train.ghost_batch=16", "noise.small_batch=16", "data.train_limit=192", "data.test_limit=64",
                     "train.epochs=2", "noise.stop_after=1", "run.device=" + testing::device_name()});
  resolve_defaults(options.config);
  options.out = folder / "moving";
  int steps = 0;
  options.stop_requested = [&] { return ++steps >= 3; };
  ASSERT_EQ(train(options), Outcome::kInterrupted);
  options.stop_requested = [] { return false; };
  options.config.run.device = "cpu";
  ASSERT_EQ(train(options), Outcome::kFinished);
  const auto last_loss = [&] {
    double loss = NAN;
    for (const auto& record : read_metrics(options.out)) loss = record.value("train_loss", loss);
    return loss;
  };
  const double moved = last_loss();
  options.out = folder / "staying";
  ASSERT_EQ(train(options), Outcome::kFinished);
  EXPECT_NEAR(moved, last_loss(), 0.02 * moved);
}

}  // namespace
}  // namespace covnoise
