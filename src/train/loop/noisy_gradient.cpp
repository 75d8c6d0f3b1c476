#include "covnoise/train/noisy_gradient.h"

#include "covnoise/core/error.h"
#include "covnoise/nn/internal/other_weights.h"
#include "train/loop/clipping.h"
#include "train/loop/weight_noise.h"
#include "train/ranks/differenced_noise.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cmath>

namespace covnoise {
namespace {

/// The options of the optimizer, if it is SGD.
const torch::optim::SGDOptions* sgd_options(const torch::optim::Optimizer& optimizer) {
  const auto& groups = optimizer.param_groups();
  require(!groups.empty(), "the optimizer has no parameters");
  return dynamic_cast<const torch::optim::SGDOptions*>(&groups[0].options());
}

/// The same; an Error where the noise cannot be placed.
const torch::optim::SGDOptions* checked_options(const torch::optim::Optimizer& optimizer, Placement placement) {
  const auto* sgd = sgd_options(optimizer);
  require(placement != Placement::kUpdate || (sgd && sgd->dampening() == 0),
          "noise.placement = \"update\" is defined for torch::optim::SGD without dampening; use Placement::kGradient");
  return sgd;
}

std::int64_t micro_batch_of(const NoisyGradient::Options& options, const NoiseOptions& noise,
                            const Injection& injection) {
  const bool micro = injection.structure_needs().squares == Squares::kMicro;
  return options.micro_batch == 0 && micro ? noise.estimator_group() : options.micro_batch;
}

std::vector<at::Tensor> tensors_of_parameters(const torch::nn::Module& module) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : trainable_parameters(module)) tensors.push_back(tensor);
  return tensors;
}

}  // namespace

struct NoisyGradient::Placed {
  DifferencedNoise differenced;
  std::optional<WeightNoise> in_weights;
};

NoisyGradient::NoisyGradient(torch::nn::Module& module, GradientPass::Loss loss, const NoiseOptions& noise,
                             const torch::optim::Optimizer& optimizer, const Options& options)
    : parameters_(module),
      tensors_(tensors_of_parameters(module)),
      injection_(noise, module),
      options_(options),
      micro_batch_(micro_batch_of(options, noise, injection_)),
      pass_(module, std::move(loss), parameters_, {noise.estimator_group(), micro_batch_, {}}),
      penalty_(noise, module, parameters_),
      optimizer_(optimizer) {
  require(options.clip_norm >= 0,
          fmt::format("NoisyGradient::Options::clip_norm = {:g} must be at least 0", options.clip_norm));
  const auto* sgd = checked_options(optimizer, noise.placement);
  require(sgd || !noise.scale.match,
          "noise.scale = \"match\" compares temperatures of torch::optim::SGD; with another optimizer give a number");
  placed_ = std::make_unique<Placed>(Placed{{noise.placement, sgd && sgd->nesterov()}, {}});
  if (noise.placement == Placement::kWeights) placed_->in_weights.emplace(parameters_, noise.radius);
}

NoisyGradient::~NoisyGradient() = default;

StepContext NoisyGradient::context_of(std::int64_t batch) const {
  StepContext context;
  context.seed = options_.seed;
  context.step = step_;
  context.fraction = options_.steps > 0 ? static_cast<double>(step_) / static_cast<double>(options_.steps) : 0;
  context.batch = batch;
  const auto& options = optimizer_.param_groups()[0].options();
  context.lr = options.get_lr();
  if (const auto* sgd = sgd_options(optimizer_)) context.momentum = sgd->momentum();
  context.clip_norm = options_.clip_norm;
  context.match_factor = match_factor_;
  return context;
}

void NoisyGradient::set_match_factor(double factor) {
  require(std::isfinite(factor) && factor >= 0, fmt::format("the match factor {:g} must be at least 0", factor));
  match_factor_ = factor;
}

/// zero_grad may have taken them away.
void NoisyGradient::attach_gradients() {
  const auto views = parameters_.views(parameters_.gradient());
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    auto& gradient = tensors_[i].mutable_grad();
    if (!gradient.defined() || gradient.data_ptr() != views[i].data_ptr()) gradient = views[i].detach();
  }
}

void NoisyGradient::pass_over(const GradientPass::Examples& examples, const GradientPass::Request& request,
                              std::int64_t size) {
  const std::int64_t micro_batch = micro_batch_ > 0 ? micro_batch_ : size;
  pass_.begin(request);
  for (std::int64_t first = 0; first < size; first += micro_batch) {
    GradientPass::Examples part;
    for (const auto& tensor : examples)
      part.push_back(tensor.defined() ? tensor.slice(0, first, first + micro_batch) : tensor);
    pass_.add(part);
  }
}

at::Tensor NoisyGradient::backward(const GradientPass::Examples& examples) {
  const auto defined = std::find_if(examples.begin(), examples.end(), [](const auto& t) { return t.defined(); });
  require(defined != examples.end(), "a batch without tensors");
  const std::int64_t size = defined->size(0);
  const StepContext context = context_of(size);
  const auto signs = penalty_.signs(context);
  GradientPass::Request request{injection_.needs(context), context.seed, static_cast<std::uint32_t>(step_), 0, signs};
  attach_gradients();
  {
    auto& noise = placed_->in_weights;
    if (noise && injection_.scale(context) == 0) noise->clear();
    const OtherWeights noisy_weights(parameters_, noise ? noise->weights() : at::Tensor());
    pass_over(examples, request, size);
  }
  const auto statistics = pass_.finish();
  const torch::NoGradGuard no_grad;
  StepNoise noise = injection_.draw(statistics, context);
  if (signs.size > 0) {
    penalty_.add(context, pass_.signed_sum(), [&](const GradientPass::GroupSigns& alone) {
      request.needs = {};
      request.groups = alone;
      pass_over(examples, request, size);
      return pass_.signed_sum();
    });
  }
  if (placed_->in_weights) {  // this step's was in the weights, and what was drawn is for the next
    placed_->in_weights->set_next(noise);
    noise = {};
  }
  add_clipped(noise, context);
  ++step_;
  return pass_.loss_sum() / size;
}

/// To the gradient, in its place; both are clipped.
void NoisyGradient::add_clipped(StepNoise noise, const StepContext& context) {
  auto& gradient = parameters_.gradient();
  if (const auto scale = injection_.clipped_scale(noise, gradient, context); scale.defined())
    noise = {noise.tensor() * scale, {}, 1, {}};
  const auto clipped = clip(gradient, injection_.clipped(noise).first, options_.clip_norm, !injection_.clips_noise());
  auto added = clipped.noise.tensor();
  if (clipped.factor.defined()) gradient.mul_(clipped.factor);
  if (clipped.left.defined() && added.defined()) added = added * clipped.left;
  if (added = placed_->differenced.next(added, context.momentum); added.defined()) gradient.add_(added);
}

}  // namespace covnoise
