#include "noise/structures.h"

#include "covnoise/ops/random.h"
#include "noise/symmetric_root.h"

namespace covnoise {
namespace {

/// C = A (x) G for each linear and convolution layer (K-FAC; KFC's factors for convolutions), no damping; the diagonal
/// for the parameters of other layers. Drawn as G^(1/2) Z A^(1/2) for the matrix [weight, bias], Z standard normal.
class Kfac final : public NoiseStructure {
 public:
  explicit Kfac(const Needs& needs) : needs_(needs) { needs_.kronecker = true; }
  Needs needs() const override { return needs_; }
  std::int64_t default_refresh() const override { return 10; }

  void prepare(Statistics& statistics) const override {
    for (auto& layer : statistics.factors) {
      layer.input_root = symmetric_root(layer.input);
      layer.output_root = symmetric_root(layer.output);
    }
  }

  at::Tensor sample(const Statistics& statistics, const RandomStream& stream) const override {
    const auto& parameters = *statistics.parameters;
    auto xi = at::empty_like(statistics.gradient);
    fill_normal(xi, stream);
    auto noise = xi * statistics.diagonal.sqrt();
    for (const auto& layer : statistics.factors) {
      const auto& weight = parameters.entries()[layer.weight];
      const std::int64_t outputs = layer.output_root.size(0);
      auto z = parameters.view(xi, weight).reshape({outputs, -1});
      const std::int64_t inputs = z.size(1);
      if (layer.bias >= 0) z = at::cat({z, parameters.view(xi, parameters.entries()[layer.bias]).unsqueeze(1)}, 1);
      const auto draw = layer.output_root.matmul(z).matmul(layer.input_root);
      parameters.view(noise, weight).copy_(draw.narrow(1, 0, inputs).reshape(weight.sizes));
      if (layer.bias >= 0) parameters.view(noise, parameters.entries()[layer.bias]).copy_(draw.select(1, inputs));
    }
    return noise;
  }

 private:
  Needs needs_;
};

}  // namespace

std::unique_ptr<NoiseStructure> make_kfac(const StructureOptions& options) {
  return std::make_unique<Kfac>(squares_needs(options));
}

}  // namespace covnoise
