// GradientPass::run: whole batches, on a GPU as CUDA graphs.
#include "covnoise/noise/gradient_pass.h"

#include "covnoise/ops/random.h"
#include "noise/sharpness.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace covnoise {
namespace {

void at_once(const std::function<void()>& callback) { callback(); }

}  // namespace

struct GradientPass::Captured {
  Needs needs;
  GroupSigns groups;
  bool sharp;
  std::int64_t size;  // of the batch
  Examples examples;  // what the graph reads
  Result result;
  std::unique_ptr<CudaGraphSequence> graph;
};

// Here, where Captured is complete.
GradientPass::GradientPass(torch::nn::Module& module, Loss loss, FlatParameters& parameters, Options options)
    : module_(module),
      loss_(std::move(loss)),
      parameters_(parameters),
      options_(std::move(options)),
      dropout_(dropout_layers(module)),
      signs_(fill_signs),
      group_signs_(fill_signs),
      labels_(fill_uniform) {
  TORCH_CHECK(options_.sharpness >= 0, "GradientPass::Options::sharpness = ", options_.sharpness,
              " must be at least 0");
  if (options_.sharpness > 0) {
    refuse_foreign_dropout(module, "train.sharpness");
    sharpness_ = std::make_unique<Sharpness>(module, parameters, options_.sharpness);
  }
  for (const auto& name : options_.without_noise) {
    const auto& entries = parameters.entries();
    TORCH_CHECK(std::any_of(entries.begin(), entries.end(), [&](const auto& entry) { return entry.name == name; }),
                "GradientPass::Options::without_noise names '", name, "', which is no parameter of the network");
  }
}

GradientPass::GradientPass(torch::nn::Module& module, Forward forward, FlatParameters& parameters, Options options)
    : GradientPass(
          module,
          [forward = std::move(forward)](const Examples& examples) {
            TORCH_CHECK(examples.size() == 2, "a classification has images and labels, not ", examples.size(),
                        " tensors");
            return cross_entropy(forward(examples[0]), examples[1]);
          },
          parameters, std::move(options)) {}

GradientPass::~GradientPass() = default;

at::Tensor StepMetrics::pack(const at::Tensor& loss_sum, const at::Tensor& correct, const at::Tensor& gradient_norm,
                             const at::Tensor& diagonal_sum, const at::Tensor& stop_requests) {
  const auto zero = at::zeros({}, loss_sum.options().dtype(at::kDouble));
  const auto number = [&](const at::Tensor& value) { return value.defined() ? value.to(at::kDouble) : zero; };
  return at::stack(
      {number(loss_sum), number(correct), number(gradient_norm), number(diagonal_sum), number(stop_requests)});
}

StepMetrics StepMetrics::unpack(const double* packed) {
  return {packed[kLossSum], packed[kCorrect], packed[kGradientNorm], packed[kDiagonalSum], packed[kStopRequests]};
}

GradientPass::Result GradientPass::finish_with_metrics() {
  Result result;
  if (groups_.size > 0) result.signed_sum = signed_;
  if (groups_.alone) return result;
  result.statistics = finish();
  const auto &diagonal = result.statistics.diagonal, &gradient = result.statistics.gradient;
  at::Tensor norm, diagonal_sum;
  {
    std::optional<SideStream> side_stream;
    if (diagonal.defined())
      side_stream.emplace(gradient.device(), [&] { diagonal_sum = diagonal.sum().to(at::kDouble); });
    norm = gradient.norm();
  }
  result.metrics = StepMetrics::pack(loss_sum_, correct_, norm, diagonal_sum, {});
  return result;
}

std::int64_t GradientPass::micro_batch(std::int64_t batch, bool sharp) const {
  const bool own = sharp && sharpness_ && options_.sharpness_batch > 0;
  const std::int64_t asked = own ? options_.sharpness_batch : options_.micro_batch;
  return asked > 0 ? std::min(asked, batch) : batch;
}

GradientPass::Result GradientPass::pass_over(const Batch& batch, const AddHostCallback& add_host_callback) {
  const std::int64_t count = micro_batch(batch.size, sharp_);
  for (std::int64_t first = 0; first < batch.size; first += count) {
    const auto examples = batch.load(first, std::min(count, batch.size - first));
    if (first + count >= batch.size) batch.before_last(add_host_callback);
    add(examples);
  }
  return finish_with_metrics();
}

const GradientPass::Result& GradientPass::run(const Request& request, const Batch& batch) {
  begin(request);
  // The normal numbers of Kronecker factors would be the capture's own.
  const bool captured = parameters_.values().is_cuda() && !request.needs.kronecker;
  return captured ? run_captured(batch) : result_ = pass_over(batch, at_once);
}

GradientPass::Captured* GradientPass::find_captured(std::int64_t batch) {
  const auto found = std::find_if(captured_.begin(), captured_.end(), [&](const auto& kind) {
    return kind->needs == needs_ && kind->groups == groups_ && kind->sharp == sharp_ && kind->size == batch;
  });
  return found == captured_.end() ? nullptr : found->get();
}

const GradientPass::Result& GradientPass::run_captured(const Batch& batch) {
  Captured* kind = find_captured(batch.size);
  const auto pass = [&](const AddHostCallback& add_host_callback) {
    const auto read = [&](std::int64_t first, std::int64_t n) {
      Examples part;
      for (const auto& tensor : kind->examples) part.push_back(tensor.defined() ? tensor.narrow(0, first, n) : tensor);
      return part;
    };
    return pass_over({batch.size, read, batch.before_last}, add_host_callback);
  };
  if (!kind) {
    captured_.push_back(std::make_unique<Captured>());
    kind = captured_.back().get();
    kind->needs = needs_;
    kind->groups = groups_;
    kind->sharp = sharp_;
    kind->size = batch.size;
    kind->examples = batch.load(0, batch.size);
    for (auto& tensor : kind->examples)
      tensor = tensor.defined() ? tensor.clone() : tensor;  // later batches overwrite it
    return kind->result = pass(at_once);
  }
  const auto examples = batch.load(0, batch.size);
  for (std::size_t i = 0; i < examples.size(); ++i) {
    if (examples[i].defined()) kind->examples[i].copy_(examples[i]);
  }
  if (!kind->graph) {
    const auto other =
        std::find_if(captured_.begin(), captured_.end(), [](const auto& k) { return k->graph != nullptr; });
    kind->graph = std::make_unique<CudaGraphSequence>(
        [&](const AddHostCallback& add_host_callback) { kind->result = pass(add_host_callback); },
        other != captured_.end() ? (*other)->graph.get() : nullptr);
  }
  kind->graph->replay();
  return kind->result;
}

}  // namespace covnoise
