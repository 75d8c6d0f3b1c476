// Host callbacks keep their point in the gradient pass, whether it runs or is replayed.
#include "covnoise/nn/gradient_ready_hooks.h"
#include "train/stepped.h"

#include <gtest/gtest.h>

namespace covnoise {
namespace {

/// Gradients at the time when the last layer's is complete, as a host callback sees them.
struct Seen {
  at::Tensor first_layer, last_layer;
};

TEST(GradientPass, HostCallbackFindsThePassWhereItsHookWas) {
  const auto config = testing::stepped_config("mlp", 5, {"run.device=" + testing::device_name()});
  const DeviceStream stream(testing::device());
  const auto source = testing::random_images();
  const Split split = make_split(source, config);
  const auto model = initial_model(config, source, testing::device());
  FlatParameters parameters(*model);
  GradientPass pass(*model, [&](const at::Tensor& x) { return model->forward(x); }, parameters,
                    {0, testing::kSteppedBatch, {}});
  const auto gradients = parameters.views(parameters.gradient());
  std::vector<Seen> seen;
  GradientPass::AddHostCallback add_host_callback;
  const GradientReadyHooks watch(*model, [&](std::size_t parameter) {
    if (parameter + 2 != gradients.size()) return;  // the last layer's weight
    add_host_callback([&, parameter] { seen.push_back({gradients[0].clone(), gradients[parameter].clone()}); });
  });
  const auto order = split.train.order(0);
  for (std::size_t step = 0; step < 5; ++step) {
    const std::int64_t examples = step < 4 ? 8 : 4;
    GradientPass::Batch batch;
    batch.size = examples;
    batch.load = [&](std::int64_t first, std::int64_t count) {
      const auto indices = order.narrow(0, static_cast<std::int64_t>(step) + first, count);
      return GradientPass::Examples{split.train.images(indices, 0), split.train.labels(indices)};
    };
    batch.before_last = [&](const auto& given) { add_host_callback = given; };
    const auto& result = pass.run({}, batch);
    ASSERT_EQ(seen.size(), step + 1);
    EXPECT_EQ(seen[step].first_layer.abs().max().item<double>(), 0);
    EXPECT_GT(seen[step].last_layer.abs().max().item<double>(), 0);
    const auto mean = seen[step].last_layer / examples;
    EXPECT_TRUE(at::equal(mean, gradients[gradients.size() - 2])) << step;
    EXPECT_GT(result.metrics[StepMetrics::kGradientNorm].item<double>(), mean.norm().item<double>());
  }
}

/// The same numbers as a pass that is never captured, and others in every step.
TEST(GradientPass, DropsTheUnitsOfEachStepInEveryReplay) {
  const auto config = testing::stepped_config("c1", 4, {"run.device=" + testing::device_name()});
  const DeviceStream stream(testing::device());
  const auto source = testing::random_images();
  const Split split = make_split(source, config);
  const auto model = initial_model(config, source, testing::device());
  model->train();
  FlatParameters parameters(*model);
  const auto forward = [&](const at::Tensor& x) { return model->forward(x); };
  GradientPass replayed(*model, forward, parameters, {0, 4, {}}), eager(*model, forward, parameters, {0, 4, {}});
  const auto load = [&](std::int64_t first, std::int64_t count) {
    const auto indices = torch::arange(first, first + count);
    return GradientPass::Examples{split.train.images(indices, 0), split.train.labels(indices)};
  };
  at::Tensor last;
  for (std::uint32_t step = 0; step < 4; ++step) {
    const GradientPass::Request request{{}, 5, step, 2};
    replayed.run(request, {8, load});
    const auto gradient = parameters.gradient().clone();
    eager.begin(request);
    for (const std::int64_t first : {0, 4}) {
      const auto examples = load(first, 4);
      eager.add(examples[0], examples[1]);
    }
    eager.finish();
    const double scale = gradient.abs().max().item<double>();
    // Overlapping pools add up in another order each time on a GPU, and ghost batches of 4 amplify that.
    const double tolerance = testing::device().is_cpu() ? 1e-4 : 5e-3;
    EXPECT_LT((gradient - parameters.gradient()).abs().max().item<double>(), tolerance * scale) << step;
    if (last.defined()) {
      EXPECT_GT((gradient - last).abs().max().item<double>(), 0.1 * scale) << step;
    }
    last = gradient;
  }
}

/// The graph of the small batch reads its signs also after a larger batch needed more of them.
TEST(GradientPass, DrawsTheSignsOfEachStepWhenASmallerBatchReturns) {
  const auto config = testing::stepped_config("mlp", 4, {"run.device=" + testing::device_name()});
  const DeviceStream stream(testing::device());
  const auto source = testing::random_images();
  const Split split = make_split(source, config);
  const auto model = initial_model(config, source, testing::device());
  FlatParameters parameters(*model);
  const auto forward = [&](const at::Tensor& x) { return model->forward(x); };
  GradientPass replayed(*model, forward, parameters, {}), eager(*model, forward, parameters, {});
  const auto load = [&](std::int64_t first, std::int64_t count) {
    const auto indices = torch::arange(first, first + count);
    return GradientPass::Examples{split.train.images(indices, 0), split.train.labels(indices)};
  };
  Needs needs;
  needs.extra = ExtraBackward::kSigned;
  std::uint32_t step = 0;
  for (const std::int64_t size : {4, 4, 4, 16, 16, 4, 4}) {
    const GradientPass::Request request{needs, 5, step++, 0, {2, false}};
    const auto& result = replayed.run(request, {size, load});
    const auto draw = result.statistics.draw.clone(), signed_sum = result.signed_sum.clone();
    eager.begin(request);
    eager.add(load(0, size));
    const auto expected = eager.finish().draw;
    EXPECT_LT((draw - expected).abs().max().item<double>(), 1e-4 * expected.abs().max().item<double>()) << step;
    const double scale = eager.signed_sum().abs().max().item<double>();
    EXPECT_LT((signed_sum - eager.signed_sum()).abs().max().item<double>(), 1e-4 * scale) << step;
  }
}

}  // namespace
}  // namespace covnoise
