#include "covnoise/nn/recorder.h"

#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

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
  std::map<const at::TensorImpl*, std::int64_t> index;
  for (const auto& [name, tensor] : trainable_parameters(module)) {
    index[tensor.unsafeGetTensorImpl()] = static_cast<std::int64_t>(trainable_.size());
    trainable_.push_back(tensor);
  }
  TORCH_CHECK(trainable_.size() == parameters.entries().size(), "the flat parameters are not those of this network");
  const auto index_of = [&](const at::Tensor& parameter) {
    const auto found = parameter.defined() ? index.find(parameter.unsafeGetTensorImpl()) : index.end();
    return found == index.end() ? -1 : found->second;
  };
  for_accounted_layers(module, [&](AccountedLayer& layer) {
    const std::int64_t weight = index_of(layer.weight_parameter()), bias = index_of(layer.bias_parameter());
    if (weight < 0) return;  // frozen
    const auto same = std::find_if(layers_.begin(), layers_.end(), [&](const Layer& other) {
      return static_cast<std::int64_t>(other.weight) == weight && other.bias == bias;
    });
    if (same != layers_.end()) return layer.set_record(same->record);
    Layer entry{static_cast<std::size_t>(weight), bias, layer.has_kronecker_factors(),
                c10::make_intrusive<LayerRecord>()};
    const std::string& name = parameters.entries()[entry.weight].name;
    entry.record->name = name.substr(0, name.rfind('.'));
    layer.set_record(entry.record);
    layers_.push_back(std::move(entry));
  });
  drop_partly_shared();
  std::vector<bool> known(trainable_.size());
  for (const auto& layer : layers_) {
    known[layer.weight] = true;
    if (layer.bias >= 0) known[static_cast<std::size_t>(layer.bias)] = true;
  }
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (!known[i]) unaccounted_.push_back(parameters.entries()[i].name);
  }
}

/// Layers that share their weight but not their bias, or the other way round: the shared one would be squared in parts.
void Recorder::drop_partly_shared() {
  std::vector<int> records(trainable_.size());
  for (const auto& layer : layers_) {
    ++records[layer.weight];
    if (layer.bias >= 0) ++records[static_cast<std::size_t>(layer.bias)];
  }
  const auto in_parts = [&](const Layer& layer) {
    return records[layer.weight] > 1 || (layer.bias >= 0 && records[static_cast<std::size_t>(layer.bias)] > 1);
  };
  for_accounted_layers(module_, [&](AccountedLayer& layer) {
    const auto own = std::find_if(layers_.begin(), layers_.end(),
                                  [&](const Layer& entry) { return entry.record == layer.record(); });
    if (own != layers_.end() && in_parts(*own)) layer.set_record({});
  });
  layers_.erase(std::remove_if(layers_.begin(), layers_.end(), in_parts), layers_.end());
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

void Recorder::begin_pass(std::int64_t first, std::int64_t examples) {
  for (auto& layer : layers_) {
    layer.record->first = first;
    layer.record->examples = examples;
    layer.record->calls = {};
  }
}

void Recorder::check_uses(const at::Tensor& losses) const {
  using torch::autograd::Node;
  TORCH_CHECK(losses.requires_grad(), "the losses do not depend on the network's parameters");
  std::unordered_map<const Node*, std::size_t> parameter_of;
  for (std::size_t i = 0; i < trainable_.size(); ++i)
    parameter_of[torch::autograd::impl::grad_accumulator(trainable_[i]).get()] = i;
  std::vector<std::int64_t> uses(trainable_.size());
  std::vector<const Node*> open{losses.grad_fn().get()};
  std::unordered_set<const Node*> seen(open.begin(), open.end());
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    for (const auto& edge : node->next_edges()) {
      const Node* next = edge.function.get();
      const auto parameter = parameter_of.find(next);
      if (parameter != parameter_of.end()) ++uses[parameter->second];
      if (next && seen.insert(next).second) open.push_back(next);
    }
  }
  for (const auto& layer : layers_) {
    const std::int64_t calls = layer.record->calls ? layer.record->calls->count : 0;
    const auto check = [&](std::size_t entry) {
      TORCH_CHECK(uses[entry] <= calls, "parameter '", parameters_.entries()[entry].name, "' is used ", uses[entry],
                  " times in one pass, but its layer is called ", calls,
                  " times: squares need every use to be a call of the layer; use noise.estimator = \"micro\"");
    };
    check(layer.weight);
    if (layer.bias >= 0) check(static_cast<std::size_t>(layer.bias));
    if (calls > 0) layer.record->calls->count = uses[layer.weight];
  }
}

void Recorder::stop() { set_active(false); }

}  // namespace covnoise
