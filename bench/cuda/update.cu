#include "cuda/update.h"

#include "covnoise/ops/philox.h"
#include "support.h"

namespace covnoise::cuda::bench {
namespace {

struct Setting {
  UpdateNoise noise;
  bool in_gradient, nesterov;
  double momentum, clip;
};

/// Normal i of the stream, as ops/random_kernel.cpp orders them.
double normal(const RandomStream& stream, std::size_t i) {
  const Philox4 words = stream.words(i / 4);
  const std::size_t pair = i % 4 / 2 * 2;
  const NormalPair n = normal_pair(words.x[pair], words.x[pair + 1]);
  return i % 2 == 0 ? n.first : n.second;
}

void check_one(Checker& checker, const Setting& setting, const std::string& name) {
  constexpr std::size_t kSize = 4096 + 4;
  const double m = 4096, ghosts = 32, lr = 0.7, scale = 0.08, decay = 0.003;
  const Values theta = random_values(kSize, Scalar::kFloat32, 1), b = random_values(kSize, Scalar::kFloat32, 2);
  const Values g = random_values(kSize, Scalar::kFloat32, 3, 0, 300), given = random_values(kSize, Scalar::kFloat32, 5);
  Values squares = random_values(kSize, Scalar::kFloat32, 4, 5000, 2000), wanted(kSize), wanted_b(kSize);
  const RandomStream stream{123456789012345ull, Purpose::kNoise, 77};
  for (std::size_t i = 0; i < kSize; ++i) {
    const double mean = g[i] / m;
    double n = 0;
    if (setting.noise == UpdateNoise::kGiven) n = given[i];
    if (setting.noise == UpdateNoise::kSquares || setting.noise == UpdateNoise::kDiagonal) {
      const double diagonal = setting.noise == UpdateNoise::kDiagonal
                                  ? std::abs(given[i])
                                  : std::max(0.0, squares[i] - m * m / ghosts * mean * mean) / (128 * (ghosts - 1));
      n = normal(stream, i) * std::sqrt(diagonal) * scale;
    }
    const double d = mean * setting.clip + (setting.in_gradient ? n : 0) + decay * theta[i];
    wanted_b[i] = setting.momentum * b[i] + d;
    const double step = setting.momentum == 0 ? d : setting.nesterov ? d + setting.momentum * wanted_b[i] : wanted_b[i];
    wanted[i] = theta[i] - lr * step - (setting.in_gradient ? 0 : lr * n);
  }
  Values absolute = given;
  for (double& value : absolute) value = std::abs(value);
  const Buffer<float> theta_device(as_floats(theta)), b_device(as_floats(b)), g_device(as_floats(g)),
      squares_device(as_floats(squares)), diagonal(as_floats(absolute)), given_device(as_floats(given));
  const Tensor copy(kSize, Scalar::kBFloat16);
  const Buffer<StepScalars> scalars(std::vector<StepScalars>{
      {static_cast<float>(lr), static_cast<float>(scale), static_cast<float>(setting.clip), 77}});
  Update u;
  u.size = kSize, u.theta = theta_device.get(), u.momentum_buffer = b_device.get(), u.gradient = g_device.get();
  u.mean_factor = static_cast<float>(1 / m), u.momentum = static_cast<float>(setting.momentum);
  u.weight_decay = static_cast<float>(decay), u.nesterov = setting.nesterov;
  u.noise = setting.noise, u.noise_in_gradient = setting.in_gradient, u.squares = squares_device.get();
  u.centre = static_cast<float>(-m * m / ghosts), u.square_factor = static_cast<float>(1 / (128 * (ghosts - 1)));
  u.diagonal = diagonal.get(), u.given = given_device.get(), u.seed = stream.seed;
  u.scalars = scalars.get(), u.bf16_copy = copy.get(), u.clear = true;
  update(u, nullptr);
  checker.compare("update " + name, as_values(theta_device.download()), wanted, 1e-6);
  if (setting.momentum != 0)
    checker.compare("update " + name + ", buffer", as_values(b_device.download()), wanted_b, 1e-6);
  checker.compare("update " + name + ", bf16 copy", copy.download(), wanted, 3e-3);
  checker.compare("update " + name + ", cleared", as_values(g_device.download()), Values(kSize), 0);
}

void check_clip(Checker& checker) {
  const Values g = random_values(100000, Scalar::kFloat32, 9);
  double norm = 0;
  for (const double value : g) norm += value * value * 0.25;
  const Buffer<float> device(as_floats(g));
  const Buffer<double> workspace(kNormBlocks);
  for (const double limit : {3.0, 1e6}) {
    const Buffer<StepScalars> scalars(std::vector<StepScalars>{{1, 1, 1, 1}});
    clip_factor(device.get(), 100000, 0.5f, static_cast<float>(limit), workspace.get(), scalars.get(), nullptr);
    checker.compare("clip factor", {scalars.download()[0].clip}, {std::min(1.0, limit / std::sqrt(norm))}, 1e-6);
  }
}

}  // namespace

void check_update(Checker& checker) {
  using N = UpdateNoise;
  check_one(checker, {N::kNone, false, false, 0.9, 1}, "without noise");
  check_one(checker, {N::kSquares, false, false, 0.9, 1}, "squares, in the update");
  check_one(checker, {N::kSquares, true, true, 0.9, 0.3}, "squares, in the gradient, Nesterov, clipped");
  check_one(checker, {N::kDiagonal, false, true, 0.9, 1}, "diagonal, Nesterov");
  check_one(checker, {N::kGiven, true, false, 0, 1}, "noise given, no momentum");
  check_clip(checker);
}

void time_update() {
  for (const long long size : {660000LL, 15000000LL}) {
    const auto n = static_cast<std::size_t>(size);
    const Buffer<float> theta(n), b(n), g(n), squares(n);
    for (float* data : {theta.get(), b.get(), g.get(), squares.get()}) fill_random(data, n, Scalar::kFloat32, 3);
    const Tensor copy(n, Scalar::kBFloat16);
    const Buffer<StepScalars> scalars(std::vector<StepScalars>{{1e-6f, 0.08f, 1, 77}});
    Update u;
    u.size = size, u.theta = theta.get(), u.momentum_buffer = b.get(), u.gradient = g.get(), u.squares = squares.get();
    u.momentum = 0.9f, u.weight_decay = 1e-4f, u.scalars = scalars.get(), u.bf16_copy = copy.get();
    for (const bool noisy : {false, true}) {
      u.noise = noisy ? UpdateNoise::kSquares : UpdateNoise::kNone;
      print_row(noisy ? "update with diagonal noise" : "update", std::to_string(size) + " parameters",
                milliseconds([&](cudaStream_t s) { update(u, s); }), static_cast<double>(size) * (noisy ? 26 : 22), 0);
    }
  }
}

}  // namespace covnoise::cuda::bench
