// The noise of the paper in a plain training loop, on a torch::nn::Module of your own: the five lines that end in //*.
// Prints:
//   squares by micro, test accuracy 86.2 %
#include <covnoise/covnoise.h>
#include <covnoise/datasets/catalog.h>
#include <torch/torch.h>
#include <cstdio>

struct Batch {
  torch::Tensor x, y;
};

struct Network : torch::nn::Module {  // layers of PyTorch, of which covnoise knows nothing
  torch::nn::Linear in{register_module("in", torch::nn::Linear(784, 128))},
      out{register_module("out", torch::nn::Linear(128, 10))};
  torch::Tensor forward(const torch::Tensor& x) { return out(torch::relu(in(x.flatten(1)))); }
};

int main() {
  torch::manual_seed(0);
  const auto source = covnoise::load_data("glyphs", {});
  const covnoise::Loader train(source.train, {false, source.mean, source.std});
  Network network;
  torch::optim::SGD optimizer(network.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  const auto loss = [](Network& n, const Batch& b) { return covnoise::cross_entropy(n.forward(b.x), b.y); };   //*
  covnoise::NoiseOptions noise;                                                                                //*
  noise.structure = "diag-fisher";                                                                             //*
  covnoise::NoisyGradient gradient(network, covnoise::loss_on<Batch>(network, loss), noise, optimizer, {96});  //*
  for (std::int64_t step = 0; step < 96; ++step) {  // epochs of 8 batches of 1024 images
    const auto i = train.order(step / 8).narrow(0, step % 8 * 1024, 1024);
    gradient.backward(Batch{train.images(i, 0), train.labels(i)});  //*
    optimizer.step();
  }
  const covnoise::Loader test(source.test, {false, source.mean, source.std});
  const auto all = torch::arange(test.size());
  const auto right = network.forward(test.plain_images(all)).argmax(1).eq(test.labels(all)).to(torch::kDouble);
  std::printf("squares by %s, test accuracy %.1f %%\n", gradient.injection().estimator().c_str(),
              100 * right.mean().item<double>());
}
