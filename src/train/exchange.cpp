#include "train/exchange.h"

#include <ATen/ATen.h>

namespace covnoise {
namespace {

// The elements of the message behind the gradient.
enum Number : std::int64_t { kLoss, kCorrect, kTrace, kAdded, kNoise, kStop, kNumbers };

at::Tensor sum_of_squares(const at::Tensor& values, const at::Tensor& like) {
  return values.defined() ? values.dot(values).to(at::kDouble) : at::zeros_like(like);
}

}  // namespace

Exchange::Exchange(Communicator& communicator, const Config& config, Model& model, FlatParameters& parameters,
                   Injection& injection)
    : communicator_(communicator),
      parameters_(parameters),
      injection_(injection),
      sharding_(config, injection.structure_needs()),
      running_(model, communicator),
      differenced_(injection.placement(), config.train.momentum, config.train.nesterov),
      separate_(config.train.clip_norm > 0 && injection.drawn_by_parts()) {
  const auto options = parameters.values().options();
  nothing_.numbers = at::zeros({4}, options.dtype(at::kDouble));
  message_ = at::zeros({parameters.size() + kNumbers}, options);
  sharding_.shard(config.train.batch, communicator.rank(), communicator.size());  // refuses what cannot be shared out
  for (const auto& change : config.train.batch_schedule) sharding_.active(change.batch, communicator.size());
  communicator_.broadcast(parameters_.values(), 0);
  running_.part();
}

Shard Exchange::begin(std::int64_t batch) {
  shard_ = sharding_.shard(batch, communicator_.rank(), communicator_.size());
  const torch::NoGradGuard no_grad;
  running_.before(shard_);
  return shard_;
}

/// This rank's part of the noise; undefined where there is none.
at::Tensor Exchange::own_noise(const Statistics& statistics, StepContext context) {
  context.part = static_cast<std::uint32_t>(communicator_.rank());
  context.share = shard_.share();
  if (shard_.count == 0 && injection_.scale(context) != 0) return {};
  return injection_.draw(statistics, context).tensor();
}

void Exchange::fill_message(const at::Tensor& numbers, const at::Tensor& noise, const at::Tensor& added) {
  auto vector = message_.narrow(0, 0, parameters_.size());
  at::mul_out(vector, parameters_.gradient(), at::scalar_tensor(shard_.share(), at::kDouble));
  if (added.defined()) vector.add_(added);
  const auto like = numbers[0];
  message_.narrow(0, parameters_.size(), kNumbers)
      .copy_(at::stack({numbers[0], numbers[1], numbers[3] * shard_.share(), sum_of_squares(added, like),
                        sum_of_squares(noise, like), at::full_like(like, stop_ ? 1 : 0)}));
}

/// Drawn from what is the same on every rank, bit for bit: a diagonal stands in that has the whole batch's trace.
StepNoise Exchange::common_noise(const at::Tensor& trace, const StepContext& context) {
  Statistics whole;
  whole.parameters = &parameters_;
  whole.examples = context.batch;
  whole.gradient = parameters_.gradient();
  if (injection_.needs(context).squares != Squares::kNone) {
    if (!trace_.defined()) trace_ = parameters_.zeros();
    trace_.narrow(0, 0, 1).copy_(trace);
    whole.diagonal = trace_;
  }
  return injection_.draw(whole, context);
}

StepNoise Exchange::combine(const Statistics& statistics, at::Tensor& numbers, const StepContext& context,
                            at::Tensor& noise_norm) {
  running_.after(shard_);
  const bool parts = injection_.drawn_by_parts();
  auto noise = parts ? own_noise(statistics, context) : at::Tensor();
  const auto added = separate_ ? at::Tensor() : differenced_.next(noise);
  fill_message(numbers, noise, added);
  communicator_.all_reduce(message_);
  parameters_.gradient().copy_(message_.narrow(0, 0, parameters_.size()));
  const auto sums = message_.narrow(0, parameters_.size(), kNumbers).to(at::kDouble);
  const auto square = parameters_.gradient().norm().to(at::kDouble).square();
  numbers =
      at::stack({sums[kLoss], sums[kCorrect], (square - sums[kAdded]).clamp_min(0).sqrt(), sums[kTrace], sums[kStop]});
  if (!parts) return common_noise(sums.narrow(0, kTrace, 1), context);
  noise_norm = sums[kNoise].sqrt();
  StepNoise result;
  if (!separate_ || injection_.scale(context) == 0) return result;
  result.values = noise.defined() ? noise : parameters_.zeros();
  communicator_.all_reduce(result.values);
  return result;
}

std::vector<std::pair<std::string, at::Tensor>> Exchange::state() const {
  std::vector<std::pair<std::string, at::Tensor>> state;
  if (injection_.drawn_by_parts()) state = injection_.state();
  if (differenced_.last().defined()) {
    for (const auto& entry : parameters_.entries())
      state.emplace_back("noise.last." + entry.name, parameters_.view(differenced_.last(), entry));
    state.emplace_back("noise.quiet", at::full({1}, differenced_.quiet(), at::kLong));
  }
  if (const auto running = running_.own_part(); running.numel() > 0) state.emplace_back("running", running);
  return state;
}

void Exchange::load_state(const std::vector<std::pair<std::string, at::Tensor>>& state) {
  if (injection_.drawn_by_parts()) injection_.load_state(state, parameters_);
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
  differenced_.restore(last, quiet);
  if (running.defined()) running_.set_own_part(running);
  if (!running.defined()) running_.part();
}

}  // namespace covnoise
