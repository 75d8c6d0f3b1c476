// A gradient pass through dropout: statistics by brute force, in micro-batches and in shards.
#include "covnoise/nn/dropout.h"
#include "covnoise/noise/gradient_pass.h"
#include "covnoise/ops/random.h"
#include "support/small_networks.h"

#include <gtest/gtest.h>

namespace covnoise {
namespace {

constexpr std::int64_t kDropoutExamples = 8;

/// 3-4-3 with tanh and dropout.
struct DroppedMlp final : testing::SmallNetwork {
  Linear fc1{nullptr}, fc2{nullptr};
  Dropout drop{nullptr};
  at::Tensor mask;  // of the reference
  DroppedMlp() {
    fc1 = register_module("fc1", Linear(3, 4));
    drop = register_module("drop", Dropout(0.5, 2));
    fc2 = register_module("fc2", Linear(4, 3));
    to(at::kDouble);
    initialize(*this, 11);
    to(testing::device());
  }
  at::Tensor forward(const at::Tensor& x) override { return fc2(drop(torch::tanh(fc1(x)))); }
  at::Tensor reference(const std::vector<at::Tensor>& p, const at::Tensor& x) const override {
    return testing::linear_each(mask * torch::tanh(testing::linear_each(x, p[0], p[1])), p[2], p[3]);
  }
  std::vector<std::int64_t> input() const override { return {3}; }
};

class DropoutPass : public ::testing::Test {
 protected:
  DropoutPass()
      : parameters_(network_),
        pass_(network_, [this](const at::Tensor& x) { return network_.forward(x); }, parameters_, {}),
        examples_(testing::make_examples(network_, kDropoutExamples, at::kDouble)) {
    auto uniforms = torch::empty({kDropoutExamples, 4});
    fill_uniform(uniforms, {17, nth(Purpose::kDropout, 2), 3});
    network_.mask = testing::on_device(uniforms.gt(0.5).to(at::kDouble) * 2);
  }

  /// The examples [first, first + count) as a shard of the batch, in micro-batches.
  GradientStatistics collect(std::int64_t first, std::int64_t count, std::int64_t micro_batch) {
    Needs needs;
    needs.squares = Squares::kExact;
    pass_.begin({needs, 17, 3, first});
    for (std::int64_t i = first; i < first + count; i += micro_batch)
      pass_.add(examples_.images.narrow(0, i, micro_batch), examples_.labels.narrow(0, i, micro_batch));
    return pass_.finish();
  }
  at::Tensor row(const at::Tensor& buffer) const { return testing::flattened(parameters_.views(buffer)); }

  DroppedMlp network_;
  FlatParameters parameters_;
  GradientPass pass_;
  testing::Examples examples_;
};

TEST_F(DropoutPass, HasTheStatisticsOfOneCopyOfTheParametersPerExample) {
  const auto contributions = testing::contributions(network_, examples_);
  for (const std::int64_t micro_batch : {8, 4, 2}) {
    const auto statistics = collect(0, kDropoutExamples, micro_batch);
    EXPECT_TRUE(row(statistics.gradient).allclose(contributions.mean(0), 1e-12, 1e-14));
    EXPECT_TRUE(row(statistics.diagonal).allclose(contributions.square().mean(0), 1e-12, 1e-14));
  }
}

TEST_F(DropoutPass, DropsInAShardWhatTheWholeBatchDrops) {
  const auto contributions = testing::contributions(network_, examples_);
  const auto statistics = collect(4, 4, 2);
  EXPECT_TRUE(row(statistics.gradient).allclose(contributions.narrow(0, 4, 4).mean(0), 1e-12, 1e-14));
}

}  // namespace
}  // namespace covnoise
