#include "covnoise/nn/model_zoo.h"

#include "covnoise/core/error.h"
#include "covnoise/nn/accounting.h"
#include "covnoise/nn/batch_norm.h"
#include "covnoise/nn/dropout.h"
#include "covnoise/nn/initialize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

namespace covnoise {
namespace {

const InputShape kMnist{1, 28, 28}, kCifar{3, 32, 32};

std::int64_t count(const std::string& name, const InputShape& input) {
  return parameter_count(*make_model(name, {input, 10, 0}));
}

TEST(ModelZoo, HasTheParametersOfThePapersNetworks) {
  EXPECT_EQ(count("mlp", kMnist), 669'706);
  EXPECT_EQ(count("lenet", kMnist), 431'080);
  EXPECT_EQ(count("alexnet", kCifar), 1'090'730);
  EXPECT_EQ(count("f1", kMnist), 1'462'794);
  EXPECT_EQ(count("c1", kCifar), 1'388'490);
  EXPECT_EQ(count("vgg11", kCifar), 9'228'362);
  EXPECT_EQ(count("vgg16", kCifar), 14'724'042);
  EXPECT_EQ(count("resnet20", kCifar), 269'722);
  EXPECT_EQ(count("resnet44", kCifar), 658'586);
}

TEST(ModelZoo, CountsTheMultiplyAddsOfOneImage) {
  const auto mlp = make_model("mlp", {kMnist, 10, 0});
  EXPECT_EQ(multiply_adds(*mlp, kMnist), 784 * 512 + 512 * 512 + 512 * 10);
  const auto lenet = make_model("lenet", {kMnist, 10, 0});
  EXPECT_EQ(multiply_adds(*lenet, kMnist), 576 * 25 * 20 + 64 * 500 * 50 + 800 * 500 + 500 * 10);
  const auto resnet = make_model("resnet8", {kCifar, 10, 0});
  const std::int64_t block = 2 * 16 * 16 * 9 * 1024;  // one block of the first stage; the two that halve have 3/4 of it
  EXPECT_EQ(multiply_adds(*resnet, kCifar), 3 * 16 * 9 * 1024 + block + 2 * (block * 3 / 4) + 640);
  EXPECT_TRUE(resnet->is_training());
}

TEST(ModelZoo, NamesParametersAsPyTorchPeopleDo) {
  const auto names = [](const std::string& name) {
    return make_model(name, {kCifar, 10, 0})->named_parameters().keys();
  };
  EXPECT_THAT(names("lenet"), ::testing::ElementsAre("conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                                                     "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"));
  EXPECT_THAT(names("resnet14"), ::testing::IsSupersetOf({"conv1.weight", "bn1.bias", "layer1.0.conv1.weight",
                                                          "layer3.1.bn2.weight", "fc.bias"}));
  EXPECT_THAT(names("vgg11"), ::testing::IsSupersetOf(
                                  {"features.0.weight", "features.1.bias", "features.4.weight", "classifier.weight"}));
}

class EveryModel : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryModel, RunsOnEveryDataSet) {
  for (const auto& input : {kMnist, kCifar}) {
    const auto model = make_model(GetParam(), {input, 7, 2});
    for (auto* layer : dropout_layers(*model)) layer->start(1, 0);
    const auto images = torch::randn({4, input.channels, input.height, input.width});
    const auto logits = model->forward(images);
    EXPECT_EQ(logits.sizes(), at::IntArrayRef({4, 7}));
    logits.sum().backward();
    for (const auto& parameter : model->named_parameters()) EXPECT_TRUE(parameter->grad().defined()) << parameter.key();
    model->eval();
    EXPECT_EQ(model->forward(images.narrow(0, 0, 1)).sizes(), at::IntArrayRef({1, 7}));
  }
}

TEST_P(EveryModel, IsMadeOfLayersThatAccountForExamples) {
  const auto model = make_model(GetParam(), {kCifar, 10, 0});
  std::int64_t accounted = 0;
  for (const auto& module : model->modules())
    if (const auto* layer = dynamic_cast<const AccountedLayer*>(module.get())) {
      accounted += layer->weight_parameter().numel();
      if (layer->bias_parameter().defined()) accounted += layer->bias_parameter().numel();
    }
  EXPECT_EQ(accounted, parameter_count(*model));
}

TEST_P(EveryModel, PassesTheGhostBatchOn) {
  const auto model = make_model(GetParam(), {kCifar, 10, 2});
  bool found = false;
  for (const auto& module : model->modules())
    if (const auto* layer = module->as<GhostBatchNorm2dImpl>()) {
      found = true;
      EXPECT_EQ(layer->ghost_batch(), 2);
    }
  EXPECT_EQ(found, model_info(GetParam()).batch_statistics);
  if (found) {
    EXPECT_THROW(model->forward(torch::randn({3, 3, 32, 32})), c10::Error);
  }
}

INSTANTIATE_TEST_SUITE_P(Names, EveryModel,
                         ::testing::Values("mlp", "lenet", "alexnet", "f1", "c1", "vgg11", "vgg16", "resnet8",
                                           "resnet20", "resnet8x2"));

TEST(ModelZoo, BuildsAllItLists) {
  for (const auto& name : model_names()) EXPECT_EQ(model_info(name).name, name);
  EXPECT_GT(count("resnet44x2", kCifar), 3 * count("resnet44", kCifar));
}

TEST(ModelZoo, ListsTheKnownNamesForAnUnknownOne) {
  for (const std::string name : {"lenet5", "resnet45", "resnet2", "resnet44x0", "vgg12", "resnet", ""}) {
    try {
      make_model(name, {kCifar, 10, 0});
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("'" + name + "'"), ::testing::HasSubstr("lenet"),
                                                 ::testing::HasSubstr("resnet44")));
    }
  }
}

TEST(ModelZoo, RefusesImagesThatAreTooSmall) {
  EXPECT_THROW(make_model("lenet", {{1, 12, 28}, 10, 0}), Error);
  EXPECT_THROW(make_model("mlp", {{0, 28, 28}, 10, 0}), Error);
}

TEST(ModelZoo, PaddingWithZerosEqualsImagesOnABlackFrame) {
  const auto model = make_model("resnet8", {kMnist, 10, 0});
  initialize(*model, 3);
  model->eval();
  const auto images = torch::randn({2, 1, 28, 28});
  const auto framed = at::constant_pad_nd(images, {2, 2, 2, 2});
  EXPECT_TRUE(at::allclose(model->forward(images), model->forward(framed)));
}

TEST(ModelZoo, LearnsASmallBatchByHeart) {
  for (const std::string name : {"lenet", "resnet8"}) {
    const auto model = make_model(name, {kMnist, 10, 0});
    initialize(*model, 1);
    torch::manual_seed(1);
    const auto images = torch::randn({8, 1, 28, 28});
    const auto labels = torch::arange(8);
    torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.02).momentum(0.9));
    double first = 0, last = 0;
    for (int step = 0; step < 16; ++step) {
      sgd.zero_grad();
      const auto loss = torch::nn::functional::cross_entropy(model->forward(images), labels);
      loss.backward();
      sgd.step();
      (step == 0 ? first : last) = loss.item<double>();
    }
    EXPECT_LT(last, 0.75 * first) << name;
  }
}

}  // namespace
}  // namespace covnoise
