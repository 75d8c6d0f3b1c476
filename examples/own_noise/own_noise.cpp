// A covariance structure of your own behind the interface: C = (Tr F_l / d_l) I for each parameter tensor l, between
// fisher-trace (one variance for all) and diag-fisher (one for each coordinate).
// Prints the root mean square of the noise beside that of diag-fisher for each parameter: the two columns agree.
#include <covnoise/data/dataset.h>
#include <covnoise/data/loader.h>
#include <covnoise/nn/initialize.h>
#include <covnoise/nn/model_zoo.h>
#include <covnoise/noise/injection.h>
#include <covnoise/noise/pass.h>
#include <covnoise/ops/random.h>
#include <torch/torch.h>

#include <cstdio>

class LayerTrace final : public covnoise::NoiseStructure {
 public:
  covnoise::Needs needs() const override {
    covnoise::Needs needs;
    needs.squares = covnoise::Squares::kExact;
    return needs;
  }
  at::Tensor sample(const covnoise::GradientStatistics& statistics,
                    const covnoise::RandomStream& stream) const override {
    auto noise = at::empty_like(statistics.diagonal);
    covnoise::fill_normal(noise, stream);
    for (const auto& entry : statistics.parameters->entries()) {
      const auto mean = statistics.parameters->view(statistics.diagonal, entry).mean();
      statistics.parameters->view(noise, entry).mul_(mean.sqrt());
    }
    return noise;
  }
};

int main() {
  const auto source = covnoise::load_data("glyphs", {});
  const covnoise::Loader loader(source.train, {false, source.mean, source.std});
  const auto model = covnoise::make_model("lenet", {{1, 28, 28}, 10, 0});
  covnoise::initialize(*model, 0);
  covnoise::FlatParameters parameters(*model);
  covnoise::GradientPass pass(*model, [&](const at::Tensor& x) { return model->forward(x); }, parameters, {});

  const auto indices = torch::arange(1024);
  covnoise::NoiseOptions options;
  options.structure = "diag-fisher";
  covnoise::Injection diagonal(options), own(options, std::make_unique<LayerTrace>());
  covnoise::StepContext step;
  step.batch = 1024;
  pass.begin({own.needs(step), /*seed=*/0, /*step=*/0});
  pass.add(loader.images(indices, 0), loader.labels(indices));
  const auto statistics = pass.finish();
  const auto ours = own.draw(statistics, step).tensor(), theirs = diagonal.draw(statistics, step).tensor();
  for (const auto& entry : parameters.entries()) {
    const auto rms = [&](const at::Tensor& buffer) {
      return parameters.view(buffer, entry).pow(2).mean().sqrt().item<double>();
    };
    std::printf("%-12s own %.2e  diag-fisher %.2e\n", entry.name.c_str(), rms(ours), rms(theirs));
  }
}
