#include "support/device.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

/// Long enough that work which nobody waits for is still running.
void add_slowly(const at::Tensor& x, int times) {
  for (int i = 0; i < times; ++i) x.add_(1);
}

/// Work on the side stream sees everything launched before it, and everything after its end sees its results.
TEST(SideStream, WaitsForWhatIsBeforeAndIsWaitedFor) {
  const DeviceStream stream(testing::device());
  const auto x = testing::on_device(at::zeros({1 << 22})), y = at::zeros_like(x), other = at::zeros_like(x);
  for (int round = 1; round <= 3; ++round) {
    add_slowly(x, 50);
    at::Tensor result;
    {
      const SideStream side_stream(x.device(), [&] {
        add_slowly(y, 50);
        result = x + y;
      });
      add_slowly(other, 50);
    }
    result.add_(other);
    EXPECT_EQ(result.min().item<double>(), 150 * round);
    EXPECT_EQ(result.max().item<double>(), 150 * round);
  }
}

TEST(SideStream, IsDoneAgainInEveryReplay) {
  if (testing::device().is_cpu()) GTEST_SKIP() << "of a GPU";
  const DeviceStream stream(testing::device());
  const auto x = testing::on_device(at::zeros({1 << 20})), sum = at::zeros_like(x);
  const auto pass = [&] {
    x.add_(1);
    at::Tensor twice, thrice;
    {
      const SideStream side_stream(x.device(), [&] { twice = x * 2; });
      thrice = x * 3;
    }
    sum.add_(twice).add_(thrice);
  };
  pass();
  CudaGraphSequence work([&](const auto&) { pass(); });
  work.replay();
  pass();
  work.replay();
  EXPECT_EQ(x.max().item<double>(), 4);
  EXPECT_EQ(sum.min().item<double>(), 5 * (1 + 2 + 3 + 4));
  EXPECT_EQ(sum.max().item<double>(), 5 * (1 + 2 + 3 + 4));
}

/// A stream that takes part in a capture belongs to it until it ends: other work must not use it.
TEST(SideStream, OfAnotherStreamIsNotPartOfACapture) {
  if (testing::device().is_cpu()) GTEST_SKIP() << "of a GPU";
  const DeviceStream stream(testing::device());
  const auto x = testing::on_device(at::zeros({1000}));
  const auto add_beside = [](const at::Tensor& to) { const SideStream side_stream(to.device(), [&] { to.add_(1); }); };
  add_beside(x);
  CudaGraphSequence work([&](const auto&) {
    add_beside(x);
    const DeviceStream another(testing::device());
    const auto y = testing::on_device(at::zeros({1000}));
    add_beside(y);
  });
  work.replay();
  EXPECT_EQ(x.min().item<double>(), 2);
}

}  // namespace
}  // namespace covnoise
