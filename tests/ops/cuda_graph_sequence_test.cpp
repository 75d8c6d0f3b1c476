#include "covnoise/core/error.h"
#include "support/device.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <vector>

namespace covnoise {
namespace {

/// Only on a GPU.
class CapturedWorkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::device().is_cpu()) GTEST_SKIP() << "of a GPU";
    const auto x = filled(1);  // captured work must have run before
    (x * 2 + x).mul_(3).add_(1).copy_(x);
  }
  at::Tensor filled(double value) const { return at::full({1000}, value, at::TensorOptions(testing::device())); }
  static double value_of(const at::Tensor& tensor) {
    EXPECT_EQ(tensor.min().item<double>(), tensor.max().item<double>());
    return tensor[0].item<double>();
  }
  DeviceStream stream_{testing::device()};
};

TEST_F(CapturedWorkTest, IsDoneWhenItIsReplayed) {
  const auto x = filled(1);
  CudaGraphSequence work([&](const auto&) { x.mul_(3).add_(1); });
  EXPECT_EQ(value_of(x), 1);
  for (const double expected : {4, 13, 40}) {
    work.replay();
    EXPECT_EQ(value_of(x), expected);
  }
}

TEST_F(CapturedWorkTest, CallsWhatIsAsideInItsPlace) {
  const auto x = filled(1), y = filled(0);
  std::vector<double> seen;
  int calls = 0;
  CudaGraphSequence work([&](const auto& add_host_callback) {
    const auto kept = x * 2;  // in memory that the graphs share
    add_host_callback([&] {
      seen.push_back(value_of(x));
      x.fill_(++calls);
    });
    const auto more = x * 100;
    add_host_callback([&] { seen.push_back(value_of(x)); });
    y.copy_(kept + more);
    x.add_(10);
  });
  EXPECT_TRUE(seen.empty());
  work.replay();
  EXPECT_EQ(value_of(y), 2 * 1 + 100);
  EXPECT_EQ(value_of(x), 11);
  work.replay();
  EXPECT_EQ(value_of(y), 2 * 11 + 200);
  EXPECT_EQ(seen, (std::vector<double>{1, 1, 11, 2}));
}

TEST_F(CapturedWorkTest, SharesMemoryAlsoInParts) {
  const auto x = filled(1), y = filled(0), z = filled(0);
  const auto into = [&](const at::Tensor& result, double factor) {
    return [=](const CudaGraphSequence::AddHostCallback& add_host_callback) {
      const auto product = x * factor;
      add_host_callback([=] { x.add_(1); });
      result.copy_(product + x);
    };
  };
  CudaGraphSequence first(into(y, 10)), second(into(z, 100), &first);
  for (const double before : {1, 3, 5}) {
    first.replay();
    second.replay();
    EXPECT_EQ(value_of(y), 10 * before + before + 1);
    EXPECT_EQ(value_of(z), 100 * (before + 1) + before + 2);
  }
}

TEST_F(CapturedWorkTest, IsCutByTheThreadOfABackwardPass) {
  const auto x = filled(3).requires_grad_();
  const auto gradient = x.mutable_grad() = filled(0), between = filled(0), copy = filled(0);
  CudaGraphSequence::AddHostCallback add_host_callback = [](const auto& call) { call(); };
  const auto pass = [&] {
    gradient.zero_();
    const auto square = x * x, cube = square * x;
    square.register_hook([&](const at::Tensor& incoming) {
      copy.copy_(incoming);
      add_host_callback([&] { between.copy_(copy * 2); });
    });
    torch::autograd::backward({cube}, {at::ones_like(cube)});
  };
  pass();
  CudaGraphSequence work([&](const auto& given) {
    add_host_callback = given;
    pass();
  });
  for (const double value : {2, 5}) {
    x.detach().fill_(value);
    work.replay();
    EXPECT_EQ(value_of(between), 2 * value);
    EXPECT_EQ(value_of(gradient), 3 * value * value);
  }
}

TEST_F(CapturedWorkTest, LeavesNothingBehindWhereItFails) {
  const auto x = filled(1);
  const auto failing = [&](const auto& add_host_callback) {
    x.add_(1);
    add_host_callback([] {});
    x.add_(1);
    throw Error("in the second part");
  };
  EXPECT_THROW(CudaGraphSequence{failing}, Error);
  x.add_(1);
  EXPECT_EQ(value_of(x), 2);
  CudaGraphSequence work([&](const auto&) { x.add_(1); });
  work.replay();
  EXPECT_EQ(value_of(x), 3);
}

}  // namespace
}  // namespace covnoise
