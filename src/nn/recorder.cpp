#include "covnoise/nn/recorder.h"

#include <map>
#include <set>

namespace covnoise {
namespace {

/// Calls use(layer) for every accounted layer. By `apply`, which unlike modules() also takes a network on the stack.
template <class Use>
void for_accounted_layers(torch::nn::Module& module, const Use& use) {
  module.apply([&](torch::nn::Module& part) {
    if (auto* layer = dynamic_cast<AccountedLayer*>(&part)) use(*layer);
  });
}

}  // namespace

Recorder::Recorder(torch::nn::Module& module, const FlatParameters& parameters)
    : module_(module), parameters_(parameters) {
  std::map<const at::TensorImpl*, std::size_t> index;
  std::size_t i = 0;
  for (const auto& item : module.named_parameters()) index[item.value().unsafeGetTensorImpl()] = i++;
  TORCH_CHECK(i == parameters.entries().size(), "the flat parameters are not those of this network");
  std::set<std::size_t> known;
  for_accounted_layers(module, [&](AccountedLayer& layer) {
    Layer entry{index.at(layer.weight_parameter().unsafeGetTensorImpl()), -1, layer.has_kronecker_factors(),
                c10::make_intrusive<LayerRecord>()};
    known.insert(entry.weight);
    if (layer.bias_parameter().defined()) {
      entry.bias = static_cast<std::int64_t>(index.at(layer.bias_parameter().unsafeGetTensorImpl()));
      known.insert(static_cast<std::size_t>(entry.bias));
    }
    layer.set_record(entry.record);
    layers_.push_back(std::move(entry));
  });
  for (std::size_t j = 0; j < i; ++j) {
    if (known.count(j) == 0) unaccounted_.push_back(parameters.entries()[j].name);
  }
}

Recorder::~Recorder() {
  for_accounted_layers(module_, [](AccountedLayer& layer) { layer.set_record({}); });
}

Request Recorder::request_of(const Layer& layer) const {
  Request request = request_;
  request.kronecker = request_.kronecker && layer.kronecker;
  if (request.kronecker) request.squares = Squares::kNone;
  return request;
}

void Recorder::start(const Request& request) {
  request_ = request;
  if (request.squares != Squares::kNone) {
    if (!squares_.defined()) squares_ = parameters_.zeros();
    squares_.zero_();
  }
  for (auto& layer : layers_) {
    const auto& entries = parameters_.entries();
    const bool squares = request_of(layer).squares != Squares::kNone;
    layer.record->weight_squares = squares ? parameters_.view(squares_, entries[layer.weight]) : at::Tensor();
    layer.record->bias_squares =
        squares && layer.bias >= 0 ? parameters_.view(squares_, entries[layer.bias]) : at::Tensor();
    layer.record->input_factor = layer.record->output_factor = at::Tensor();
    layer.record->gram = layer.record->fourth_powers = at::Tensor();
  }
  set_active(true);
}

void Recorder::set_active(bool active) {
  for (auto& layer : layers_) layer.record->request = active ? request_of(layer) : Request{};
}

void Recorder::stop() { set_active(false); }

}  // namespace covnoise
