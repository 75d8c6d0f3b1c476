#include "covnoise/noise/gradient_pass.h"

#include "covnoise/core/error.h"
#include "covnoise/nn/loss.h"
#include "covnoise/ops/group_variance.h"
#include "covnoise/ops/random.h"

#include <fmt/format.h>
#include <torch/autograd.h>

#include <algorithm>
#include <cmath>

namespace covnoise {

void GradientPass::begin(const Request& request) {
  const Needs& needs = request.needs;
  needs_ = needs;
  first_ = request.first;
  for (auto* layer : dropout_) layer->start(request.seed, request.step, request.first);
  signs_.stream = {request.seed, Purpose::kSigns, request.step};
  labels_.stream = {request.seed, Purpose::kLabels, request.step};
  if (signs_.values.defined()) fill_signs(signs_.values, signs_.stream);
  if (labels_.values.defined()) fill_uniform(labels_.values, labels_.stream);
  examples_ = 0;
  if (needs.squares != Squares::kNone || needs.kronecker) {
    if (!recorder_) recorder_.emplace(module_, parameters_);
    check_accounted(needs);
    LayerRequest asked;
    asked.squares = needs.squares;
    asked.kronecker = needs.kronecker;
    asked.group = options_.group;
    asked.normals = {request.seed, Purpose::kInputs, request.step};
    recorder_->start(asked);
  }
}

void GradientPass::check_accounted(const Needs& needs) const {
  TORCH_CHECK(needs.squares != Squares::kGhost || options_.group > 0,
              "the ghost estimator needs the size of its groups (GradientPass::Options::group)");
  for (const auto& name : recorder_->unaccounted()) {
    const auto& allowed = options_.without_noise;
    if (std::find(allowed.begin(), allowed.end(), name) != allowed.end()) continue;
    throw Error(
        fmt::format("parameter '{}' belongs to a layer that cannot account for examples; use covnoise's layers "
                    "there, or name it in GradientPass::Options::without_noise to leave it without noise",
                    name));
  }
}

void GradientPass::start_sums() {
  const torch::NoGradGuard no_grad;
  parameters_.gradient().zero_();
  sums_end_ = parameters_.size();
  if (!loss_sum_.defined()) {
    const auto options = parameters_.values().options();
    loss_sum_ = at::zeros({}, options.dtype(at::kDouble));
    correct_ = at::zeros({}, options.dtype(at::kLong));
  }
  loss_sum_.zero_();
  correct_.zero_();
  if (needs_.extra == ExtraBackward::kNone) return;
  if (!draw_.defined()) draw_ = parameters_.zeros();
  draw_.zero_();
}

void GradientPass::add(const at::Tensor& images, const at::Tensor& labels) {
  if (examples_ == 0) start_sums();
  first_of_micro_ = first_ + examples_;
  for (auto* layer : dropout_) layer->set_offset(examples_);
  examples_ += images.size(0);
  const bool statistics = needs_.squares != Squares::kNone || needs_.kronecker;
  const bool of_model = statistics && needs_.labels == Labels::kModel;
  const bool extra = needs_.extra != ExtraBackward::kNone;
  if (statistics) {
    recorder_->set_active(true);
    recorder_->set_first(first_of_micro_);
  }
  const auto logits = forward_(images);
  const auto losses = cross_entropy_losses(logits, labels, options_.label_smoothing);
  if (of_model) recorder_->set_active(false);
  torch::autograd::backward({losses}, {torch::ones_like(losses)}, /*retain_graph=*/of_model || extra);
  if (of_model) {
    recorder_->set_active(true);
    const auto sampled = sampled_losses(logits);
    torch::autograd::grad({sampled}, module_.parameters(), {torch::ones_like(sampled)}, /*retain_graph=*/extra);
  }
  if (statistics) recorder_->stop();
  if (extra) draw_backward(logits, losses);
  const torch::NoGradGuard no_grad;
  loss_sum_.add_(losses.sum(at::kDouble));
  correct_.add_(logits.argmax(1).eq(labels).sum());
}

template <class Fill>
at::Tensor GradientPass::next_of(Drawn& drawn, std::int64_t n, const at::TensorOptions& options,
                                 const Fill& fill) const {
  if (!drawn.values.defined() || drawn.values.numel() < first_of_micro_ + n) {
    drawn.values = at::empty({first_of_micro_ + n}, options);
    fill(drawn.values, drawn.stream);
  }
  return drawn.values.narrow(0, first_of_micro_, n);
}

/// Losses of labels drawn from the model: the label whose slice of the cumulated probabilities holds a uniform number.
at::Tensor GradientPass::sampled_losses(const at::Tensor& logits) {
  const auto probabilities = torch::softmax(logits.detach().to(at::kDouble), 1).cumsum(1);
  const auto u = next_of(labels_, logits.size(0), probabilities.options(), fill_uniform);
  const auto labels = probabilities.lt(u.unsqueeze(1)).sum(1).clamp_max(logits.size(1) - 1);
  return cross_entropy_losses(logits, labels);
}

void GradientPass::draw_backward(const at::Tensor& logits, const at::Tensor& losses) {
  const bool sampled = needs_.extra == ExtraBackward::kSampledLabels;
  const auto target = sampled ? sampled_losses(logits) : losses;
  const auto signs = sampled ? torch::ones_like(target)
                             : next_of(signs_, target.size(0), target.options().requires_grad(false), fill_signs);
  const auto gradients = torch::autograd::grad({target}, module_.parameters(), {signs});
  const torch::NoGradGuard no_grad;
  const auto views = parameters_.views(draw_);
  for (std::size_t i = 0; i < views.size(); ++i) views[i].add_(gradients[i]);
}

/// From sums over the batch, in place. exact, spatial: (1/M) sum_i g_i^2. ghost: see group_variance.
void GradientPass::finish_diagonal(at::Tensor squares, const at::Tensor& mean) const {
  if (needs_.squares != Squares::kGhost) {
    squares.div_(examples_);
    return;
  }
  const std::int64_t groups = examples_ / options_.group;
  TORCH_CHECK(groups >= 2, "the ghost estimator needs at least two groups of ", options_.group,
              " examples in a batch, and this one has ", examples_, " examples");
  // Where a layer gives Kronecker factors instead of squares, clamping leaves zero.
  group_variance(squares, mean, groups, options_.group);
}

/// Sums become means from the element `first` on.
void GradientPass::finish_elements(std::int64_t first) {
  const torch::NoGradGuard no_grad;
  TORCH_CHECK(examples_ > 0, "a batch without examples");
  const std::int64_t count = sums_end_ - first;
  const auto gradient = parameters_.gradient().narrow(0, first, count).div_(examples_);
  if (needs_.squares != Squares::kNone) finish_diagonal(recorder_->squares().narrow(0, first, count), gradient);
  if (needs_.kronecker) recorder_->draw().narrow(0, first, count).div_(std::sqrt(static_cast<double>(examples_)));
  sums_end_ = first;
}

std::vector<KroneckerFactor> GradientPass::factors_of(const FlatParameters& slice) const {
  std::vector<KroneckerFactor> result;
  const std::size_t first = slice.first_entry();
  for (const auto& layer : recorder_->layers()) {
    if (!layer.record->output_factor.defined()) continue;
    if (layer.weight < first || layer.weight >= first + slice.entries().size()) continue;
    const double count = static_cast<double>(examples_) * static_cast<double>(layer.record->positions);
    result.push_back({layer.weight - first, layer.bias < 0 ? -1 : layer.bias - static_cast<std::int64_t>(first),
                      layer.record->output_factor / count});
  }
  return result;
}

GradientStatistics GradientPass::statistics_of(const FlatParameters& slice) const {
  const torch::NoGradGuard no_grad;
  GradientStatistics statistics;
  statistics.parameters = &slice;
  statistics.examples = examples_;
  statistics.gradient = slice.gradient();
  if (needs_.squares != Squares::kNone) {
    statistics.diagonal = slice.slice_of(recorder_->squares());
    statistics.centred = needs_.squares == Squares::kGhost;
  }
  if (needs_.kronecker) {
    statistics.factors = factors_of(slice);
    statistics.draw = slice.slice_of(recorder_->draw());
  }
  return statistics;
}

GradientStatistics GradientPass::finish_slice(const FlatParameters& slice) {
  TORCH_CHECK(slice.first_element() + slice.size() == sums_end_, "slices are finished from the last to the first");
  finish_elements(slice.first_element());
  return statistics_of(slice);
}

GradientStatistics GradientPass::finish() {
  finish_elements(0);
  GradientStatistics statistics = statistics_of(parameters_);
  if (needs_.extra != ExtraBackward::kNone) statistics.draw = draw_.div_(std::sqrt(static_cast<double>(examples_)));
  return statistics;
}

}  // namespace covnoise
