#include "cuda/update.h"

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
  const double lr = 0.7, scale = 0.08, decay = 0.003;
  const Values theta = random_values(kSize, Scalar::kFloat32, 1), b = random_values(kSize, Scalar::kFloat32, 2);
  const Values g = random_values(kSize, Scalar::kFloat32, 3);
  Values values = random_values(kSize, Scalar::kFloat32, 5), wanted(kSize), wanted_b(kSize);
  const bool drawn = setting.noise == UpdateNoise::kVariance;
  for (double& value : values) value = drawn ? std::abs(value) : value;
  const RandomStream stream{123456789012345ull, Purpose::kNoise, 77};
  for (std::size_t i = 0; i < kSize; ++i) {
    const double n = setting.noise == UpdateNoise::kNone ? 0
                     : drawn                             ? normal(stream, i) * std::sqrt(values[i]) * scale
                                                         : values[i];
    const double d = (g[i] + (setting.in_gradient ? n : 0)) * setting.clip + decay * theta[i];
    wanted_b[i] = setting.momentum * b[i] + d;
    const double step = setting.momentum == 0 ? d : setting.nesterov ? d + setting.momentum * wanted_b[i] : wanted_b[i];
    wanted[i] = theta[i] - lr * step - (setting.in_gradient ? 0 : lr * n * setting.clip);
  }
  const Buffer<float> theta_device(as_floats(theta)), b_device(as_floats(b)), g_device(as_floats(g)),
      values_device(as_floats(values)), clip(std::vector<float>{static_cast<float>(setting.clip)});
  Update u;
  u.size = kSize, u.theta = theta_device.get(), u.momentum_buffer = b_device.get(), u.gradient = g_device.get();
  u.lr = static_cast<float>(lr), u.momentum = static_cast<float>(setting.momentum);
  u.weight_decay = static_cast<float>(decay), u.nesterov = setting.nesterov;
  u.clip = setting.clip == 1 ? nullptr : clip.get();
  u.noise = setting.noise, u.noise_in_gradient = setting.in_gradient, u.values = values_device.get();
  u.noise_scale = static_cast<float>(scale), u.seed = stream.seed, u.step = stream.step;
  update(u, nullptr);
  checker.compare("update " + name, as_values(theta_device.download()), wanted, 1e-6);
  if (setting.momentum != 0)
    checker.compare("update " + name + ", buffer", as_values(b_device.download()), wanted_b, 1e-6);
}

void check_fill(Checker& checker) {
  constexpr std::size_t kSize = 1003;
  const RandomStream stream{7, Purpose::kLabels, 5};
  Values normals, signs, uniforms;
  for (std::size_t i = 0; i < kSize; ++i) {
    const std::uint32_t word = stream.words(i / 4).x[i % 4];
    normals.push_back(normal(stream, i));
    signs.push_back((word >> 31) != 0 ? 1 : -1);
    uniforms.push_back(uniform_open(word));
  }
  const Buffer<float> out(kSize);
  const auto compare = [&](const char* name, Distribution distribution, const Values& wanted, double tolerance) {
    fill_random(out.get(), Number::kFloat, kSize, distribution, stream, nullptr);
    checker.compare(name, as_values(out.download()), wanted, tolerance);
  };
  compare("normals", Distribution::kNormal, normals, 1e-6);
  compare("signs", Distribution::kSigns, signs, 0);
  compare("uniforms", Distribution::kUniform, uniforms, 0);
}

}  // namespace

void check_update(Checker& checker) {
  using N = UpdateNoise;
  check_one(checker, {N::kNone, false, false, 0.9, 1}, "without noise");
  check_one(checker, {N::kVariance, false, false, 0.9, 1}, "noise by its variance, in the update");
  check_one(checker, {N::kVariance, true, true, 0.9, 0.3}, "noise by its variance, in the gradient, Nesterov, clipped");
  check_one(checker, {N::kGiven, true, false, 0, 1}, "noise given, no momentum");
  check_fill(checker);
}

void time_update() {
  for (const long long size : {660000LL, 15000000LL}) {
    const auto n = static_cast<std::size_t>(size);
    const Buffer<float> theta(n), b(n), g(n), variance(n);
    for (float* data : {theta.get(), b.get(), g.get(), variance.get()}) fill_random(data, n, Scalar::kFloat32, 3);
    Update u;
    u.size = size, u.theta = theta.get(), u.momentum_buffer = b.get(), u.gradient = g.get(), u.values = variance.get();
    u.lr = 1e-6f, u.momentum = 0.9f, u.weight_decay = 1e-4f, u.noise_scale = 0.08f;
    for (const bool noisy : {false, true}) {
      u.noise = noisy ? UpdateNoise::kVariance : UpdateNoise::kNone;
      print_row(noisy ? "update with diagonal noise" : "update", std::to_string(size) + " parameters",
                milliseconds([&](cudaStream_t s) { update(u, s); }), static_cast<double>(size) * (noisy ? 24 : 20), 0);
    }
  }
}

}  // namespace covnoise::cuda::bench
