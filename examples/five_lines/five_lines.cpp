// The noise of the paper in a plain training loop, on a torch::nn::Module of your own: the five lines that end in //*.
// Prints:
//   squares by micro, the loss fell
#include <covnoise/covnoise.h>
#include <covnoise/datasets/catalog.h>
#include <torch/torch.h>

#include <cstdio>

struct Batch {
  torch::Tensor x, y;
};

struct Network : torch::nn::Module {  // reads an image row by row
  torch::nn::LSTM rows{register_module("rows", torch::nn::LSTM(torch::nn::LSTMOptions(28, 64).batch_first(true)))};
  torch::nn::Linear out{register_module("out", torch::nn::Linear(64, 10))};
  torch::Tensor forward(const torch::Tensor& x) { return out(std::get<0>(rows(x.squeeze(1))).select(1, -1)); }
};

int main() {
  torch::manual_seed(0);
  const auto source = covnoise::load_data("glyphs", {});
  const covnoise::Loader train(source.train, {false, source.mean, source.std});
  Network network;
  torch::optim::SGD optimizer(network.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  const auto loss = [](Network& n, const Batch& b) { return covnoise::cross_entropy(n.forward(b.x), b.y); };   //*
  covnoise::NoiseOptions noise;                                                                                //*
  noise.structure = "diag-fisher";                                                                             //*
  covnoise::NoisyGradient gradient(network, covnoise::loss_on<Batch>(network, loss), noise, optimizer, {96});  //*
  double first = 0, last = 0;
  for (std::int64_t step = 0; step < 96; ++step) {  // epochs of 8 batches of 1024 images
    const auto i = train.order(step / 8).narrow(0, step % 8 * 1024, 1024);
    last = gradient.backward(Batch{train.images(i, 0), train.labels(i)}).item<double>();  //*
    if (step == 0) first = last;
    optimizer.step();
  }
  const char* const estimator = gradient.injection().estimator().c_str();
  std::printf("squares by %s, the loss %s\n", estimator, last < first ? "fell" : "did not fall");
}
