#pragma once
#include "covnoise/nn/batch_norm.h"
#include "covnoise/nn/conv2d.h"
#include "covnoise/nn/linear.h"
#include "support/device.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <functional>
#include <ostream>
#include <string>

namespace covnoise::testing {

/// One layer with an input of six examples and a derivative of the sum loss by its output.
struct Subject {
  std::shared_ptr<torch::nn::Module> module;
  AccountedLayer* layer;
  std::function<at::Tensor(const at::Tensor&)> forward;
  at::Tensor x, dz;

  at::Tensor weight() const { return layer->weight_parameter(); }
  at::Tensor bias() const { return layer->bias_parameter(); }
};

struct LayerCase {
  std::string name;
  at::ScalarType dtype;
  std::function<Subject()> make;
  double tolerance() const { return dtype == at::kDouble ? 1e-10 : 1e-4; }
};

inline std::ostream& operator<<(std::ostream& out, const LayerCase& test) { return out << test.name; }

template <class Layer>
Subject subject(Layer layer, at::ScalarType dtype, at::IntArrayRef input_sizes) {
  torch::manual_seed(11);
  layer->to(dtype);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : layer->parameters()) parameter.normal_();
  layer->to(device());
  auto forward = [layer](const at::Tensor& x) mutable { return layer->forward(x); };
  const auto x = on_device(torch::randn(input_sizes, dtype));
  const auto training = layer->is_training();
  layer->eval();  // keeps running statistics as they are
  const auto dz = on_device(torch::randn(forward(x).sizes(), dtype));
  layer->train(training);
  return {layer.ptr(), layer.get(), forward, x, dz};
}

inline torch::nn::Conv2dOptions conv_options(std::int64_t stride, std::int64_t padding, std::int64_t dilation,
                                             std::int64_t groups, bool bias) {
  return torch::nn::Conv2dOptions(4, 6, {3, 2})
      .stride(stride)
      .padding(padding)
      .dilation(dilation)
      .groups(groups)
      .bias(bias);
}

/// Layers whose examples do not see each other, in double and float.
inline std::vector<LayerCase> layer_cases() {
  std::vector<LayerCase> cases;
  for (const auto dtype : {at::kDouble, at::kFloat}) {
    const std::string suffix = dtype == at::kDouble ? "Double" : "Float";
    const auto add = [&](const std::string& name, std::function<Subject()> make) {
      cases.push_back({name + suffix, dtype, std::move(make)});
    };
    for (const bool bias : {true, false})
      add(bias ? "Linear" : "LinearNoBias", [=] {
        return subject(Linear(torch::nn::LinearOptions(5, 3).bias(bias)), dtype, {6, 5});
      });
    const auto add_conv = [&](const std::string& name, const torch::nn::Conv2dOptions& options) {
      add(name, [=] { return subject(Conv2d(options), dtype, {6, 4, 7, 8}); });
    };
    add_conv("Conv", conv_options(1, 0, 1, 1, true));
    add_conv("ConvPaddedNoBias", conv_options(1, 1, 1, 1, false));
    add_conv("ConvStride", conv_options(2, 1, 1, 1, true));
    add_conv("ConvDilated", conv_options(1, 2, 2, 1, true));
    add_conv("ConvGroups", conv_options(2, 1, 1, 2, true));
    add("EvaluationNorm", [=] {
      GhostBatchNorm2d layer(torch::nn::BatchNormOptions(4), 2);
      layer->eval();
      layer->running_mean.uniform_(-1, 1);
      layer->running_var.uniform_(1, 2);
      return subject(layer, dtype, {6, 4, 3, 5});
    });
  }
  return cases;
}

/// Gives the layer a record that asks for `request`.
inline c10::intrusive_ptr<LayerRecord> record_of(const Subject& subject, const LayerRequest& request) {
  auto record = c10::make_intrusive<LayerRecord>();
  record->request = request;
  subject.layer->set_record(record);
  return record;
}

struct Gradients {
  at::Tensor x, weight, bias;
};

/// Gradients of sum(dz * y) through whatever the layer's record makes the forward do.
inline Gradients gradients(const Subject& subject, const at::Tensor& input, const at::Tensor& dz) {
  const auto x = input.detach().clone().requires_grad_();
  subject.module->zero_grad();
  for (auto& parameter : subject.module->parameters()) parameter.mutable_grad() = at::Tensor();
  (subject.forward(x) * dz).sum().backward();
  const auto copy = [](const at::Tensor& t) { return t.defined() ? t.grad().clone() : at::Tensor(); };
  return {x.grad().clone(), copy(subject.weight()), copy(subject.bias())};
}

/// One backward pass for each example: [M, parameters of weight], [M, parameters of bias].
inline std::pair<at::Tensor, at::Tensor> gradient_rows(const Subject& subject) {
  std::vector<at::Tensor> weights, biases;
  for (std::int64_t i = 0; i < subject.x.size(0); ++i) {
    const auto g = gradients(subject, subject.x.narrow(0, i, 1), subject.dz.narrow(0, i, 1));
    weights.push_back(g.weight.flatten());
    if (g.bias.defined()) biases.push_back(g.bias);
  }
  return {at::stack(weights), biases.empty() ? at::Tensor() : at::stack(biases)};
}

inline bool close(const at::Tensor& a, const at::Tensor& b, double tolerance) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.sizes() == b.sizes() && at::allclose(a, b, tolerance, tolerance * b.abs().max().item<double>());
}

}  // namespace covnoise::testing
