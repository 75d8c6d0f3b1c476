#include "train/ranks/gradient_all_reduce.h"

#include "covnoise/core/error.h"

#include <ATen/ATen.h>

#include <cmath>

namespace covnoise {
namespace {

// The header of the message, before the gradient; two unused elements let that start at a multiple of 32 bytes.
enum Header : std::int64_t { kLoss, kCorrect, kTrace, kAdded, kNoise, kStop, kHeaderSize = 8 };

void add_squares(at::Tensor& sum, const at::Tensor& values) {
  if (values.defined()) sum.add_(values.dot(values));
}

/// Whether what the backward pass of the losses gave is all there is to a layer's gradient and noise.
bool final_by_layers(const Needs& needs) {
  return needs.extra == ExtraBackward::kNone && needs.labels == Labels::kData && needs.squares != Squares::kMicro;
}

/// Whether the step needs the sum of the ranks' noise apart from that of their gradients: where clipping would
/// otherwise get differenced noise, or the momentum along which the gradient is taken would have it, where the norms of
/// both decide the matched scale, where the noise is clipped apart from the gradient, where the update is not linear,
/// or where the noise is for the weights.
bool noise_apart(const Config& config, const Injection& injection) {
  const bool differenced = injection.placement() == Placement::kUpdate && config.train.momentum > 0;
  const bool clipped = config.train.clip_norm > 0 && (differenced || config.noise.scale.match);
  const bool along_momentum = differenced && config.train.sharpness > 0 && config.train.sharpness_along == "momentum";
  const bool not_linear = injection.placement() == Placement::kUpdate && config.train.optimizer != "sgd";
  return injection.drawn_by_shards() && (clipped || along_momentum || injection.clips_noise() || not_linear ||
                                         injection.placement() == Placement::kWeights);
}

/// The statistics of a slice of the parameters, from complete ones.
GradientStatistics slice_of(const GradientStatistics& whole, const FlatParameters& slice) {
  GradientStatistics result = whole;
  result.parameters = &slice;
  result.gradient = slice.slice_of(whole.gradient);
  result.diagonal = slice.slice_of(whole.diagonal);
  result.draw = slice.slice_of(whole.draw);
  result.factors.clear();
  const std::size_t first = slice.first_entry();
  for (auto layer : whole.factors) {
    if (layer.weight < first || layer.weight >= first + slice.entries().size()) continue;
    layer.weight -= first;
    if (layer.bias >= 0) layer.bias -= static_cast<std::int64_t>(first);
    result.factors.push_back(layer);
  }
  return result;
}

}  // namespace

GradientAllReduce::GradientAllReduce(Communicator& communicator, const Config& config, torch::nn::Module& model,
                                     FlatParameters& parameters, Injection& injection, const BucketOptions& buckets)
    : communicator_(communicator),
      parameters_(parameters),
      injection_(injection),
      sharding_(config, injection.structure_needs(), normalises_by_batch(model)),
      running_(model, communicator),
      separate_(noise_apart(config, injection)) {
  require(
      injection.drawn_by_shards() || !injection.structure_needs().kronecker,
      "a noise structure that needs the Kronecker factors of the whole batch (adds_up_over_shards() is false) cannot "
      "be used on several ranks");
  const auto options = parameters.values().options();
  nothing_.metrics = at::zeros({StepMetrics::kCount}, options.dtype(at::kDouble));
  message_ = at::zeros({kHeaderSize + parameters.size()}, options);
  added_squares_ = at::zeros({}, options.dtype(at::kDouble));
  noise_squares_ = at::zeros({}, options.dtype(at::kDouble));
  const bool one = separate_ || !final_by_layers(injection.structure_needs());
  for (auto& slice : cut_in_buckets(parameters, {one ? 1 : buckets.most, buckets.least_bytes})) {
    bucket_of_.insert(bucket_of_.end(), slice.entries().size(), buckets_.size());
    buckets_.push_back({std::move(slice), {injection.placement(), config.train.nesterov}, 0});
  }
  if (buckets_.size() > 1) {
    hooks_ = std::make_unique<GradientReadyHooks>(model, [this](std::size_t parameter) { parameter_done(parameter); });
  }
  sharding_.shard(config.train.batch, communicator.rank(), communicator.size());  // refuses what cannot be shared out
  for (const auto& change : config.train.batch_schedule) sharding_.active(change.batch, communicator.size());
  communicator_.broadcast(parameters_.values(), 0);
  running_.split();
}

Shard GradientAllReduce::begin(const StepContext& context) {
  context_ = context;
  shard_ = sharding_.shard(context.batch, communicator_.rank(), communicator_.size());
  const torch::NoGradGuard no_grad;
  running_.before(shard_);
  pass_ = nullptr;
  unsent_ = buckets_.size();
  added_squares_.zero_();
  noise_squares_.zero_();
  return shard_;
}

void GradientAllReduce::expect_last(GradientPass& pass, const GradientPass::AddHostCallback& add_host_callback) {
  if (!hooks_) return;
  pass_ = &pass;
  add_host_callback_ = add_host_callback;
  unfinished_ = buckets_.size();
  for (auto& bucket : buckets_) bucket.missing = bucket.parameters.entries().size();
}

/// The first bucket waits for the header.
void GradientAllReduce::parameter_done(std::size_t parameter) {
  if (!pass_) return;
  --buckets_[bucket_of_[parameter]].missing;
  while (unfinished_ > 1 && buckets_[unfinished_ - 1].missing == 0) {
    const std::size_t index = --unfinished_;
    add_host_callback_([this, index, slice = pass_->finish_slice(buckets_[index].parameters)] { send(index, slice); });
  }
}

at::Tensor GradientAllReduce::message_of(std::size_t bucket) const {
  const auto& parameters = buckets_[bucket].parameters;
  const std::int64_t before = bucket == 0 ? std::int64_t{kHeaderSize} : 0;
  return message_.narrow(0, kHeaderSize + parameters.first_element() - before, before + parameters.size());
}

/// This rank's share of the noise; undefined where there is none.
at::Tensor GradientAllReduce::own_noise(const GradientStatistics& statistics) {
  StepContext context = context_;
  context.shard = static_cast<std::uint32_t>(communicator_.rank());
  context.share = shard_.share();
  if (shard_.count == 0 && injection_.scale(context) != 0) return {};
  return injection_.draw(statistics, context).tensor();
}

/// The next bucket, from the last to the first on all ranks.
void GradientAllReduce::send(std::size_t index, const GradientStatistics& statistics) {
  const torch::NoGradGuard no_grad;
  auto& bucket = buckets_[index];
  noise_ = injection_.drawn_by_shards() ? own_noise(statistics) : at::Tensor();
  const auto added = separate_ ? at::Tensor() : bucket.differenced.next(noise_, context_.momentum);
  auto vector = message_.narrow(0, kHeaderSize + bucket.parameters.first_element(), bucket.parameters.size());
  at::mul_out(vector, bucket.parameters.gradient(), at::scalar_tensor(shard_.share(), at::kDouble));
  if (added.defined()) vector.add_(added);
  add_squares(added_squares_, added);
  add_squares(noise_squares_, noise_);
  unsent_ = index;
  if (index > 0) communicator_.start_all_reduce(message_of(index));
}

void GradientAllReduce::write_header(const at::Tensor& metrics) {
  const auto stop = at::full_like(added_squares_, stop_ ? 1 : 0);
  message_.narrow(0, 0, kStop + 1)
      .copy_(at::stack({metrics[StepMetrics::kLossSum], metrics[StepMetrics::kCorrect],
                        metrics[StepMetrics::kDiagonalSum] * shard_.share(), added_squares_, noise_squares_, stop}));
}

at::Tensor GradientAllReduce::sum_over_ranks(const at::Tensor& own, double factor) {
  auto sum = own.defined() ? own.mul(factor) : parameters_.zeros();
  communicator_.all_reduce(sum);
  return sum;
}

/// Drawn from what is the same on every rank, bit for bit: the whole batch's statistics. Where only the trace is used,
/// a diagonal stands in that has it.
StepNoise GradientAllReduce::common_noise(const GradientStatistics& own, const at::Tensor& trace) {
  GradientStatistics whole;
  whole.parameters = &parameters_;
  whole.examples = context_.batch;
  whole.gradient = parameters_.gradient();
  const Needs needs = injection_.needs(context_);
  const double share = shard_.share();
  if (needs.squares != Squares::kNone) {
    whole.centred = centred(needs.squares);
    if (injection_.needs_only_trace()) {
      if (!trace_.defined()) trace_ = parameters_.zeros();
      trace_.narrow(0, 0, 1).copy_(trace);
      whole.diagonal = trace_;
    } else {
      whole.diagonal = sum_over_ranks(own.diagonal, share);
    }
  }
  if (needs.extra != ExtraBackward::kNone) whole.draw = sum_over_ranks(own.draw, std::sqrt(share));
  return injection_.draw(whole, context_);
}

StepNoise GradientAllReduce::combine(const GradientStatistics& statistics, at::Tensor& metrics,
                                     at::Tensor& noise_norm) {
  running_.after(shard_);
  pass_ = nullptr;
  while (unsent_ > 0) send(unsent_ - 1, slice_of(statistics, buckets_[unsent_ - 1].parameters));
  write_header(metrics);
  communicator_.start_all_reduce(message_of(0));
  communicator_.finish();
  parameters_.gradient().copy_(message_.narrow(0, kHeaderSize, parameters_.size()));
  const auto sums = message_.narrow(0, 0, kHeaderSize).to(at::kDouble);
  const auto square = parameters_.gradient().norm().to(at::kDouble).square();
  metrics = StepMetrics::pack(sums[kLoss], sums[kCorrect], (square - sums[kAdded]).clamp_min(0).sqrt(), sums[kTrace],
                              sums[kStop]);
  if (!injection_.drawn_by_shards()) return common_noise(statistics, sums.narrow(0, kTrace, 1));
  noise_norm = sums[kNoise].sqrt();
  StepNoise result;
  if (!separate_ || injection_.scale(context_) == 0) return result;
  result.values = noise_.defined() ? noise_ : parameters_.zeros();
  communicator_.all_reduce(result.values);
  return result;
}

std::vector<std::pair<std::string, at::Tensor>> GradientAllReduce::state() const {
  std::vector<std::pair<std::string, at::Tensor>> state;
  if (injection_.drawn_by_shards()) state = injection_.state();
  for (const auto& [parameters, differenced, missing] : buckets_) {
    if (!differenced.last().defined()) continue;
    for (const auto& entry : parameters.entries())
      state.emplace_back("noise.last." + entry.name, parameters.view(differenced.last(), entry));
  }
  if (buckets_[0].differenced.last().defined())
    state.emplace_back("noise.quiet", at::full({1}, buckets_[0].differenced.quiet(), at::kLong));
  if (const auto running = running_.own_terms(); running.numel() > 0) state.emplace_back("running", running);
  return state;
}

void GradientAllReduce::load_state(const std::vector<std::pair<std::string, at::Tensor>>& state) {
  at::Tensor last, running;
  std::int64_t quiet = 0;
  for (const auto& [name, tensor] : state) {
    if (name == "running") running = tensor;
    if (name == "noise.quiet") quiet = tensor.item<std::int64_t>();
    for (const auto& entry : parameters_.entries()) {
      if (name != "noise.last." + entry.name) continue;
      if (!last.defined()) last = parameters_.zeros();
      parameters_.view(last, entry).copy_(tensor);
    }
  }
  for (auto& bucket : buckets_) {
    if (injection_.drawn_by_shards()) injection_.load_state(state, bucket.parameters);
    bucket.differenced.restore(bucket.parameters.slice_of(last), quiet);
  }
  if (running.defined()) running_.set_own_terms(running);
  if (!running.defined()) running_.split();
}

}  // namespace covnoise
