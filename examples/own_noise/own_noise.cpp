// A covariance structure of your own: C = (Tr F_l / d_l) I for each parameter tensor l, between fisher-trace (one
// variance for all parameters) and diag-fisher (one per parameter). Prints the root mean square of its noise and of
// diag-fisher's, which agree up to sampling error:
//   conv1.weight own 3.4e-03  diag-fisher 3.4e-03
//   conv1.bias   own 3.1e-03  diag-fisher 2.9e-03
//   conv2.weight own 8.9e-04  diag-fisher 8.9e-04
//   conv2.bias   own 2.0e-03  diag-fisher 2.1e-03
//   fc1.weight   own 5.2e-04  diag-fisher 5.2e-04
//   fc1.bias     own 1.4e-03  diag-fisher 1.4e-03
//   fc2.weight   own 3.6e-03  diag-fisher 3.6e-03
//   fc2.bias     own 3.1e-02  diag-fisher 3.1e-02
#include <covnoise/covnoise.h>
#include <covnoise/datasets/catalog.h>
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
  covnoise::set_threads(0);
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
    std::printf("%-12s own %.1e  diag-fisher %.1e\n", entry.name.c_str(), rms(ours), rms(theirs));
  }
}
