#include "covnoise/noise/gradient_pass.h"

#include "covnoise/core/error.h"
#include "covnoise/ops/group_variance.h"
#include "covnoise/ops/random.h"
#include "noise/sharpness.h"

#include <fmt/format.h>
#include <torch/autograd.h>

#include <algorithm>
#include <cmath>

namespace covnoise {

void GradientPass::begin(const Request& request) {
  const Needs& needs = request.needs;
  needs_ = needs;
  groups_ = request.groups;
  TORCH_CHECK(groups_.size > 0 || (groups_.size == 0 && !groups_.alone), "groups of ", groups_.size,
              " examples with one sign: there must be at least one in each");
  sharp_ = sharpness_ && request.sharp;
  TORCH_CHECK(!sharp_ || groups_.size == 0, "signs of groups need gradients at one theta, not with sharpness");
  first_ = request.first;
  for (auto* layer : dropout_) layer->start(request.seed, request.step, request.first);
  signs_.start({request.seed, Purpose::kSigns, request.step});
  group_signs_.start({request.seed, nth(Purpose::kSigns, 1), request.step});
  labels_.start({request.seed, Purpose::kLabels, request.step});
  examples_ = 0;
  if (by_layers()) {
    if (!recorder_) recorder_.emplace(module_, parameters_);
    check_accounted();
    LayerRequest asked;
    asked.squares = needs.squares;
    asked.kronecker = needs.kronecker;
    asked.group = options_.group;
    asked.normals = {request.seed, Purpose::kInputs, request.step};
    recorder_->start(asked);
  }
}

/// Whether layers collect statistics in this batch.
bool GradientPass::by_layers() const {
  return (needs_.squares != Squares::kNone && needs_.squares != Squares::kMicro) || needs_.kronecker;
}

void GradientPass::check_accounted() const {
  TORCH_CHECK(needs_.squares != Squares::kGhost || options_.group > 0,
              "the ghost estimator needs the size of its groups (GradientPass::Options::group)");
  for (const auto& name : recorder_->unaccounted()) {
    const auto& allowed = options_.without_noise;
    if (std::find(allowed.begin(), allowed.end(), name) != allowed.end()) continue;
    throw Error(
        fmt::format("parameter '{}' belongs to a layer that cannot account for examples, or to several layers that "
                    "share only part of their parameters; use noise.estimator = \"micro\", or covnoise's layers there, "
                    "or name it in GradientPass::Options::without_noise to leave it without noise",
                    name));
  }
}

void GradientPass::start_sums() {
  const torch::NoGradGuard no_grad;
  if (groups_.size > 0) {
    if (!signed_.defined()) signed_ = parameters_.zeros();
    signed_.zero_();
  }
  if (groups_.alone) return;
  parameters_.gradient().zero_();
  sums_end_ = parameters_.size();
  if (!loss_sum_.defined()) {
    const auto options = parameters_.values().options();
    loss_sum_ = at::zeros({}, options.dtype(at::kDouble));
    correct_ = at::zeros({}, options.dtype(at::kLong));
  }
  loss_sum_.zero_();
  correct_.zero_();
  if (needs_.squares == Squares::kMicro) {
    if (!micro_sum_.defined()) micro_sum_ = parameters_.zeros(), micro_squares_ = parameters_.zeros();
    micro_sum_.zero_();
    micro_squares_.zero_();
    micro_size_ = 0;
  }
  if (needs_.extra == ExtraBackward::kNone) return;
  if (!draw_.defined()) draw_ = parameters_.zeros();
  draw_.zero_();
}

namespace {

std::int64_t count_of(const GradientPass::Examples& examples) {
  std::int64_t count = -1;
  for (const auto& tensor : examples) {
    if (!tensor.defined()) continue;
    TORCH_CHECK(tensor.dim() > 0 && (count < 0 || tensor.size(0) == count), "a batch has tensors of ", count,
                " examples and of sizes ", tensor.sizes(), ": the first dimension of each must be the examples");
    count = tensor.size(0);
  }
  TORCH_CHECK(count > 0, "a batch without examples");
  return count;
}

}  // namespace

Losses GradientPass::losses_of(const Examples& examples) {
  const std::int64_t count = examples_ - (first_of_micro_ - first_);
  auto losses = loss_(examples);
  TORCH_CHECK(losses.values.dim() == 1 && losses.values.size(0) == count, "the loss function returned sizes ",
              losses.values.sizes(), " for ", count, " examples; it must return one loss for each, not averaged");
  return losses;
}

void GradientPass::add(const Examples& examples) {
  if (examples_ == 0) start_sums();
  first_of_micro_ = first_ + examples_;
  const std::int64_t count = count_of(examples);
  for (auto* layer : dropout_) layer->set_offset(examples_, count);
  examples_ += count;
  if (groups_.alone) return signed_backward(losses_of(examples));
  const auto ascended = sharp_ ? ascend(examples) : nullptr;
  const bool statistics = by_layers();
  const bool of_model = statistics && needs_.labels == Labels::kModel;
  const bool extra = needs_.extra != ExtraBackward::kNone, groups = groups_.size > 0;
  if (statistics) {
    recorder_->set_active(true);
    recorder_->begin_pass(first_of_micro_, count_of(examples));
  }
  const auto losses = losses_of(examples);
  if (statistics) recorder_->check_uses(losses.values);
  if (of_model) recorder_->set_active(false);
  torch::autograd::backward({losses.values}, {torch::ones_like(losses.values)},
                            /*retain_graph=*/of_model || extra || groups);
  if (of_model) {
    recorder_->set_active(true);
    const auto sampled = sampled_losses(losses);
    torch::autograd::grad({sampled}, trainable(), {torch::ones_like(sampled)}, /*retain_graph=*/extra || groups,
                          /*create_graph=*/false, /*allow_unused=*/true);
  }
  if (statistics) recorder_->stop();
  if (extra) draw_backward(losses, /*retain_graph=*/groups);
  if (groups) signed_backward(losses);
  const torch::NoGradGuard no_grad;
  if (needs_.squares == Squares::kMicro) add_micro_batch(count_of(examples));
  if (!sharp_) add_losses(losses);
}

void GradientPass::add_losses(const Losses& losses) {
  const torch::NoGradGuard no_grad;
  loss_sum_.add_(losses.values.sum(at::kDouble));
  if (losses.correct.defined()) correct_.add_(losses.correct.sum());
}

/// The first of the two passes with sharpness, without statistics. Its gradient is computed, not accumulated, so that
/// hooks of the accumulation wait for the second.
std::unique_ptr<OtherWeights> GradientPass::ascend(const Examples& examples) {
  if (recorder_) recorder_->set_active(false);
  const auto losses = losses_of(examples);
  const auto gradients =
      torch::autograd::grad({losses.values}, trainable(), {torch::ones_like(losses.values)}, /*retain_graph=*/false,
                            /*create_graph=*/false, /*allow_unused=*/true);
  add_losses(losses);
  return sharpness_->ascend(gradients);
}

/// The gradient buffer has the gradient of this micro-batch alone, and is cleared for the next.
void GradientPass::add_micro_batch(std::int64_t examples) {
  TORCH_CHECK(micro_size_ == 0 || micro_size_ == examples,
              "the estimator \"micro\" compares micro-batches of one size, not ", micro_size_, " and ", examples,
              " examples: choose a micro-batch that divides the batch");
  micro_size_ = examples;
  auto& gradient = parameters_.gradient();
  micro_squares_.addcmul_(gradient, gradient);
  micro_sum_.add_(gradient);
  gradient.zero_();
}

at::Tensor GradientPass::sampled_losses(const Losses& losses) {
  if (!losses.of_drawn_labels) {
    throw Error(
        "this loss function cannot draw labels from the model (Losses::of_drawn_labels), which true-fisher and "
        "noise.labels = \"model\" need; use full-fisher, or noise.labels = \"data\"");
  }
  const auto options = losses.values.options().requires_grad(false).dtype(at::kDouble);
  return losses.of_drawn_labels(
      [&](std::int64_t columns) { return labels_.rows(first_of_micro_, first_ + examples_, columns, options); });
}

void GradientPass::draw_backward(const Losses& losses, bool retain_graph) {
  const auto options = losses.values.options().requires_grad(false);
  if (needs_.extra == ExtraBackward::kSampledLabels) {
    const auto sampled = sampled_losses(losses);
    return add_gradients(sampled, torch::ones_like(sampled), retain_graph, draw_);
  }
  const auto signs = signs_.rows(first_of_micro_, first_ + examples_, 1, options);
  add_gradients(losses.values, signs.squeeze(1), retain_graph, draw_);
}

/// The last pass through the graph of this micro-batch, which need not be whole groups.
void GradientPass::signed_backward(const Losses& losses) {
  const std::int64_t size = groups_.size, end = first_ + examples_;
  const std::int64_t begin_group = first_of_micro_ / size, end_group = (end + size - 1) / size;
  const auto groups = group_signs_.rows(begin_group, end_group, 1, losses.values.options().requires_grad(false));
  const auto signs = groups.expand({end_group - begin_group, size}).reshape({-1});
  add_gradients(losses.values, signs.slice(0, first_of_micro_ - begin_group * size, end - begin_group * size),
                /*retain_graph=*/false, signed_);
}

/// buffer += sum_i factor_i grad l_i.
void GradientPass::add_gradients(const at::Tensor& losses, const at::Tensor& factors, bool retain_graph,
                                 const at::Tensor& buffer) {
  const auto gradients = torch::autograd::grad({losses}, trainable(), {factors}, retain_graph,
                                               /*create_graph=*/false, /*allow_unused=*/true);
  const torch::NoGradGuard no_grad;
  const auto views = parameters_.views(buffer);
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (gradients[i].defined()) views[i].add_(gradients[i]);
  }
}

/// In the order of the flat parameters.
std::vector<at::Tensor> GradientPass::trainable() const {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : trainable_parameters(module_)) tensors.push_back(tensor);
  return tensors;
}

const at::Tensor& GradientPass::squares() const {
  return needs_.squares == Squares::kMicro ? micro_squares_ : recorder_->squares();
}

/// From sums over the batch, in place. exact, spatial: (1/M) sum_i g_i^2. ghost, micro: see group_variance.
void GradientPass::finish_diagonal(at::Tensor squares, const at::Tensor& mean) const {
  if (!centred(needs_.squares)) {
    squares.div_(examples_);
    return;
  }
  if (needs_.squares == Squares::kMicro) {
    TORCH_CHECK(examples_ >= 2 * micro_size_,
                "the estimator \"micro\" compares at least two micro-batches, and this batch of ", examples_,
                " examples is one; set the micro-batch (train.micro_batch) to at most half of it");
    group_variance(squares, mean, examples_ / micro_size_, micro_size_);
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
  if (needs_.squares == Squares::kMicro) parameters_.gradient().copy_(micro_sum_);
  const auto gradient = parameters_.gradient().narrow(0, first, count).div_(examples_);
  if (needs_.squares != Squares::kNone) {
    finish_diagonal(squares().narrow(0, first, count), gradient);
    clear_without_noise(first);
  }
  if (needs_.kronecker) recorder_->draw().narrow(0, first, count).div_(std::sqrt(static_cast<double>(examples_)));
  sums_end_ = first;
}

void GradientPass::clear_without_noise(std::int64_t first) {
  const auto& names = options_.without_noise;
  for (const auto& entry : parameters_.entries()) {
    if (entry.offset < first || std::find(names.begin(), names.end(), entry.name) == names.end()) continue;
    parameters_.view(squares(), entry).zero_();
  }
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
    statistics.diagonal = slice.slice_of(squares());
    statistics.centred = centred(needs_.squares);
  }
  if (needs_.kronecker) {
    statistics.factors = factors_of(slice);
    statistics.draw = slice.slice_of(recorder_->draw());
  }
  return statistics;
}

GradientStatistics GradientPass::finish_slice(const FlatParameters& slice) {
  TORCH_INTERNAL_ASSERT(needs_.squares != Squares::kMicro, "micro-batches are compared when all of them are there");
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
