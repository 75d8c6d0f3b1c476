// A network, data and a loss of your own in covnoise::Trainer: run folder, checkpoints, resuming, ranks. A regression
// on Friedman's function (1991), whose noise has variance 1: no test error can be below it. Prints:
//   squares by exact, test error 1.040 against 25.8 for the mean
#include <covnoise/covnoise.h>
#include <torch/torch.h>
#include <cstdio>

struct Batch {
  torch::Tensor x, y;
};

struct Network : torch::nn::Module {
  covnoise::Linear in{register_module("in", covnoise::Linear(10, 64))},
      out{register_module("out", covnoise::Linear(64, 1))};
  torch::Tensor forward(const torch::Tensor& x) { return out(torch::tanh(in(x))); }
};

Batch friedman(std::int64_t count, std::uint64_t seed) {
  auto x = torch::empty({count, 10}), noise = torch::empty({count, 1});
  covnoise::fill_uniform(x, {seed, covnoise::Purpose::kData});
  covnoise::fill_normal(noise, {seed, covnoise::Purpose::kData, /*step=*/1});
  const auto a = [&](int i) { return x.narrow(1, i, 1); };
  return {x, 10 * torch::sin(M_PI * a(0) * a(1)) + 20 * (a(2) - 0.5).square() + 10 * a(3) + 5 * a(4) + noise};
}

int main() {
  const auto loss = [](Network& n, const Batch& b) { return covnoise::mean_squared_error(n.forward(b.x), b.y); };
  covnoise::TrainOptions options;
  options.config = covnoise::load_config(
      {}, {"model=two-layers", "data=friedman", "regime=lb-diag", "train.batch=1024", "train.epochs=200",
           "train.lr=0.03", "train.clip_norm=10", "train.checkpoint_every=100"});
  options.out = "runs/regression";
  covnoise::Trainer trainer(options, covnoise::make_task<Batch>([] { return std::make_shared<Network>(); }, loss,
                                                                friedman(8192, 0), friedman(2048, 1)));
  trainer.run();  // resumes an interrupted run; a finished one is not trained again
  std::printf("squares by %s, test error %.3f against %.1f for the mean\n", trainer.config().noise.estimator.c_str(),
              trainer.evaluate().loss, friedman(2048, 1).y.var().item<double>());
}
