// Gradient and sum of squared per-example gradients of networks without batch normalisation, on a GPU: milliseconds and
// peak memory, to compare with bench/peers/examples.py. One JSON object per line.
//   build/bench_gpu_examples [network,...] [precision] [examples] [micro-batch,...]
// Networks: lenet, chain44, vgg16-plain.
#include "covnoise/nn/conv2d.h"
#include "covnoise/nn/linear.h"
#include "covnoise/nn/model_zoo.h"
#include "covnoise/noise/gradient_pass.h"
#include "covnoise/ops/device.h"
#include "support/numbers.h"

#include <torch/types.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <sstream>

namespace covnoise {
namespace {

constexpr int kCalls = 7;

/// 3x3 convolutions with ReLU (0: a pool that halves the size), the mean over positions, a linear layer.
struct Chain final : Model {
  Chain(const std::vector<int>& plan, std::int64_t stride_at_change) {
    std::int64_t in = 3;
    for (const int channels : plan) {
      if (channels == 0) {
        layers.push_back({nullptr});
        continue;
      }
      const std::int64_t stride = in > 3 && channels != in ? stride_at_change : 1;
      layers.push_back({Conv2d(torch::nn::Conv2dOptions(in, channels, 3).stride(stride).padding(1).bias(false))});
      register_module("conv" + std::to_string(layers.size()), layers.back().conv);
      in = channels;
    }
    fc = register_module("fc", Linear(in, 10));
  }
  at::Tensor forward(at::Tensor x) override {
    for (auto& layer : layers) x = layer.conv ? layer.conv(x).relu_() : at::max_pool2d(x, 2);
    return fc(x.mean({2, 3}));
  }
  struct Layer {
    Conv2d conv;
  };
  std::vector<Layer> layers;
  Linear fc{nullptr};
};

std::shared_ptr<Model> network(const std::string& name) {
  if (name == "lenet") return make_model("lenet", {{1, 28, 28}, 10, 0});
  std::vector<int> plan;
  if (name == "chain44") {
    plan.push_back(16);
    for (const int channels : {16, 32, 64}) plan.insert(plan.end(), 14, channels);
    return std::make_shared<Chain>(plan, 2);
  }
  plan = {64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0};
  return std::make_shared<Chain>(plan, 1);
}

void measure(const std::string& name, const std::string& precision, std::int64_t examples, std::int64_t micro_batch) {
  const auto device = device_of("cuda");
  set_gpu_arithmetic({precision != "fp32", false});
  const DeviceStream stream(device);
  const auto model = network(name);
  model->to(device);
  FlatParameters parameters(*model);
  GradientPass pass(*model, [&](const at::Tensor& x) { return model->forward(x); }, parameters, {});
  const auto type = precision == "bf16" ? at::kBFloat16 : at::kFloat;
  const std::int64_t side = name == "lenet" ? 28 : 32, channels = name == "lenet" ? 1 : 3;
  const auto images = torch::randn({examples, channels, side, side}, torch::device(device))
                          .to(type)
                          .contiguous(at::MemoryFormat::ChannelsLast);
  const auto labels = torch::randint(0, 10, {examples}, torch::device(device).dtype(torch::kInt64));
  Needs needs;
  needs.squares = Squares::kExact;
  const auto whole_batch = [&] {
    for (std::int64_t first = 0; first < examples; first += micro_batch) {
      const std::int64_t n = std::min(micro_batch, examples - first);
      pass.add(images.narrow(0, first, n), labels.narrow(0, first, n));
    }
    pass.finish();
  };
  pass.begin({needs});
  whole_batch();
  synchronize(device);
  reset_peak_device_bytes(device);
  pass.begin({needs});
  CudaGraphSequence graph([&](const auto&) { whole_batch(); });
  std::vector<double> times;
  for (int i = 0; i < kCalls; ++i) {
    synchronize(device);
    const auto begin = std::chrono::steady_clock::now();
    graph.replay();
    synchronize(device);
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  const nlohmann::ordered_json row = {
      {"bench", "examples"},
      {"network", name},
      {"precision", precision},
      {"examples", examples},
      {"micro_batch", micro_batch},
      {"ms", bench::to_thousandths(bench::median(times))},
      {"peak_gb", bench::to_thousandths(static_cast<double>(peak_device_bytes(device)) * 1e-9)}};
  std::printf("%s\n", row.dump().c_str());
  std::fflush(stdout);
}

}  // namespace
}  // namespace covnoise

int main(int count, char** arguments) {
  try {
    for (const auto& name : covnoise::bench::words(count > 1 ? arguments[1] : "lenet,chain44,vgg16-plain"))
      for (const auto& micro_batch : covnoise::bench::words(count > 4 ? arguments[4] : "4096,2048"))
        covnoise::measure(name, count > 2 ? arguments[2] : "tf32", count > 3 ? std::stoll(arguments[3]) : 4096,
                          std::stoll(micro_batch));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_gpu_examples: %s\n", error.what());
    return 1;
  }
}
