// The noise of every structure on two ranks: what the update of a training in several processes gets.
#include "covnoise/ops/random.h"
#include "support/ranks.h"
#include "train/stepped.h"

#include <gtest/gtest.h>

namespace covnoise {
namespace {

using testing::kSteppedBatch;

/// As examples/own_noise: a structure whose sample needs the diagonal of the whole batch.
class TraceOfParameters final : public NoiseStructure {
 public:
  Needs needs() const override {
    Needs needs;
    needs.squares = Squares::kExact;
    return needs;
  }
  bool adds_up_over_shards() const override { return false; }
  at::Tensor sample(const GradientStatistics& statistics, const RandomStream& stream) const override {
    auto noise = at::empty_like(statistics.diagonal);
    fill_normal(noise, stream);
    for (const auto& entry : statistics.parameters->entries()) {
      const auto mean = statistics.parameters->view(statistics.diagonal, entry).mean();
      statistics.parameters->view(noise, entry).mul_(mean.sqrt());
    }
    return noise;
  }
};

/// The same of a draw of the whole batch.
class DrawOfTheWhole final : public NoiseStructure {
 public:
  Needs needs() const override {
    Needs needs;
    needs.extra = ExtraBackward::kSigned;
    return needs;
  }
  bool adds_up_over_shards() const override { return false; }
  at::Tensor sample(const GradientStatistics& statistics, const RandomStream&) const override {
    return statistics.draw.abs();
  }
};

class RankedStructure : public ::testing::TestWithParam<std::string> {
 protected:
  RankedStructure()
      : config_(testing::stepped_config("mlp", 1, {"noise.stop_after=1", "noise.placement=gradient"})),
        source_(testing::random_images()) {
    config_.train.precision = "fp64";
    context_.batch = kSteppedBatch;
    context_.seed = 3;
    context_.lr = 0.02;
  }

  std::unique_ptr<NoiseStructure> structure() const {
    if (GetParam() == "own diagonal") return std::make_unique<TraceOfParameters>();
    if (GetParam() == "own draw") return std::make_unique<DrawOfTheWhole>();
    NoiseOptions options = config_.noise;
    options.structure = GetParam();
    return make_structure(options);
  }

  /// One process' network and its gradient pass over examples of the batch.
  struct Process {
    std::shared_ptr<Model> model;
    FlatParameters parameters;
    Injection injection;
    GradientPass pass;

    Process(const RankedStructure& test)
        : model(initial_model(test.config_, test.source_, at::kCPU)),
          parameters(*model),
          injection(test.config_.noise, test.structure()),
          pass(*model, [this](const at::Tensor& x) { return model->forward(x); }, parameters, {}) {}
    GradientStatistics collect(const RankedStructure& test, const Shard& shard) {
      const auto& part = test.source_.train;
      pass.begin({injection.needs(test.context_), test.context_.seed, 0, shard.first});
      pass.add(part.images.narrow(0, shard.first, shard.count).to(at::kDouble) / 255,
               part.labels.narrow(0, shard.first, shard.count));
      return pass.finish();
    }
  };

  Config config_;
  DataSource source_;
  StepContext context_;
};

TEST_P(RankedStructure, GivesTheGradientAndNoiseOfTheWholeBatch) {
  Process alone(*this);
  const Shard halves[] = {{0, kSteppedBatch / 2, kSteppedBatch}, {kSteppedBatch / 2, kSteppedBatch / 2, kSteppedBatch}};
  at::Tensor expected = alone.collect(*this, {0, kSteppedBatch, kSteppedBatch}).gradient.clone();
  if (alone.injection.drawn_by_shards()) {  // each rank's noise, of its own stream
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      StepContext context = context_;
      context.shard = rank;
      context.share = 0.5;
      expected = expected + alone.injection.draw(alone.collect(*this, halves[rank]), context).tensor();
    }
  } else {
    const auto noise = alone.injection.draw(alone.collect(*this, {0, kSteppedBatch, kSteppedBatch}), context_).tensor();
    if (noise.defined()) expected = expected + noise;
  }
  std::vector<at::Tensor> results(2);
  testing::as_ranks(2, [&](Communicator& communicator) {
    Process process(*this);
    GradientAllReduce all_reduce(communicator, config_, *process.model, process.parameters, process.injection,
                                 testing::kOneBucket);
    const Shard shard = all_reduce.begin(context_);
    auto metrics = at::zeros({StepMetrics::kCount}, at::kDouble);
    const auto statistics = process.collect(*this, shard);
    if (statistics.diagonal.defined()) metrics[StepMetrics::kDiagonalSum] = statistics.diagonal.sum();
    at::Tensor norm;
    const auto noise = all_reduce.combine(statistics, metrics, norm).tensor();
    const auto& gradient = process.parameters.gradient();
    results[static_cast<std::size_t>(communicator.rank())] = noise.defined() ? gradient + noise : gradient.clone();
  });
  EXPECT_TRUE(results[0].equal(results[1]));
  EXPECT_TRUE(results[0].allclose(expected, 1e-6, 1e-8)) << (results[0] - expected).abs().max();
}

std::vector<std::string> all_structures() {
  auto names = structure_names();
  names.insert(names.end(), {"own diagonal", "own draw"});
  return names;
}

INSTANTIATE_TEST_SUITE_P(Table, RankedStructure, ::testing::ValuesIn(all_structures()), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name) c = c == '-' || c == ' ' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace covnoise
