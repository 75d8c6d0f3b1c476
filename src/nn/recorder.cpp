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

/// An accounted layer, and its parameters as indices into trainable_parameters.
struct Found {
  AccountedLayer* layer;
  std::int64_t weight, bias;  // bias -1: none
  bool same_as(const Found& other) const { return weight == other.weight && bias == other.bias; }
};

/// Those whose parameters are their own, or shared as a whole: a weight that is shared without its bias, or the other
/// way round, would be squared in parts.
std::vector<Found> find_layers(torch::nn::Module& module) {
  std::map<const at::TensorImpl*, std::int64_t> index;
  for (const auto& [name, tensor] : trainable_parameters(module))
    index.emplace(tensor.unsafeGetTensorImpl(), static_cast<std::int64_t>(index.size()));
  const auto index_of = [&](const at::Tensor& parameter) {
    const auto found = parameter.defined() ? index.find(parameter.unsafeGetTensorImpl()) : index.end();
    return found == index.end() ? -1 : found->second;
  };
  std::vector<Found> all, whole;
  for_accounted_layers(module, [&](AccountedLayer& layer) {
    const Found found{&layer, index_of(layer.weight_parameter()), index_of(layer.bias_parameter())};
    if (found.weight >= 0) all.push_back(found);  // not frozen
  });
  for (const auto& layer : all) {
    const bool in_parts = std::any_of(all.begin(), all.end(), [&](const Found& other) {
      const bool touches = layer.weight == other.weight || (layer.bias >= 0 && layer.bias == other.bias);
      return touches && !layer.same_as(other);
    });
    if (!in_parts) whole.push_back(layer);
  }
  return whole;
}

}  // namespace

std::vector<std::string> unaccounted_parameters(torch::nn::Module& module) {
  const auto layers = find_layers(module);
  std::vector<std::string> names;
  std::int64_t i = 0;
  for (const auto& [name, tensor] : trainable_parameters(module)) {
    const bool known = std::any_of(layers.begin(), layers.end(),
                                   [&](const Found& layer) { return layer.weight == i || layer.bias == i; });
    if (!known) names.push_back(name);
    ++i;
  }
  return names;
}

Recorder::Recorder(torch::nn::Module& module, const FlatParameters& parameters)
    : module_(module), parameters_(parameters), unaccounted_(unaccounted_parameters(module)) {
  for (const auto& [name, tensor] : trainable_parameters(module)) trainable_.push_back(tensor);
  TORCH_CHECK(trainable_.size() == parameters.entries().size(), "the flat parameters are not those of this network");
  for (const auto& found : find_layers(module)) {
    const auto same = std::find_if(layers_.begin(), layers_.end(), [&](const Layer& other) {
      return static_cast<std::int64_t>(other.weight) == found.weight && other.bias == found.bias;
    });
    if (same != layers_.end()) {
      found.layer->set_record(same->record);
      continue;
    }
    Layer entry{static_cast<std::size_t>(found.weight), found.bias, found.layer->has_kronecker_factors(),
                c10::make_intrusive<LayerRecord>()};
    const std::string& name = parameters.entries()[entry.weight].name;
    entry.record->name = name.substr(0, name.rfind('.'));
    found.layer->set_record(entry.record);
    layers_.push_back(std::move(entry));
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
