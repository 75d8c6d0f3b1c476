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

/// Each layer has its own normals.
LayerRequest Recorder::request_of(std::size_t layer) const {
  LayerRequest request = request_;
  request.kronecker = request_.kronecker && layers_[layer].kronecker;
  if (request.kronecker) request.squares = Squares::kNone;
  request.normals.purpose = nth(request_.normals.purpose, static_cast<std::uint32_t>(layer));
  return request;
}

void Recorder::start(const LayerRequest& request) {
  request_ = request;
  const auto zeros = [&](at::Tensor& buffer) {
    if (!buffer.defined()) buffer = parameters_.zeros();
    buffer.zero_();
  };
  if (request.squares != Squares::kNone) zeros(squares_);
  if (request.kronecker) zeros(draw_);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const auto& entries = parameters_.entries();
    const auto& layer = layers_[i];
    const auto view = [&](bool wanted, const at::Tensor& buffer, std::int64_t entry) {
      return wanted && entry >= 0 ? parameters_.view(buffer, entries[static_cast<std::size_t>(entry)]) : at::Tensor();
    };
    const auto weight = static_cast<std::int64_t>(layer.weight);
    const LayerRequest own = request_of(i);
    const bool squares = own.squares != Squares::kNone;
    layer.record->weight_squares = view(squares, squares_, weight);
    layer.record->bias_squares = view(squares, squares_, layer.bias);
    layer.record->weight_draw = view(own.kronecker, draw_, weight);
    layer.record->bias_draw = view(own.kronecker, draw_, layer.bias);
    layer.record->output_factor = at::Tensor();
    layer.record->gram = layer.record->fourth_powers = at::Tensor();
  }
  set_active(true);
}

void Recorder::set_active(bool active) {
  for (std::size_t i = 0; i < layers_.size(); ++i) layers_[i].record->request = active ? request_of(i) : LayerRequest{};
}

void Recorder::set_first(std::int64_t place) {
  for (auto& layer : layers_) layer.record->first = place;
}

void Recorder::stop() { set_active(false); }

}  // namespace covnoise
