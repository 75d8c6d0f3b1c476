#include "cuda/normalisation/norm_sums.h"

#include "support.h"

namespace covnoise::cuda::bench {
namespace {

struct NormSumsSetting {
  int examples, positions, channels, group;
  Scalar scalar;
  bool planes;
  int statistic_rows, statistic_channels;
};

NormSums norm_sums_call(const NormSumsSetting& s) {
  NormSums call;
  call.examples = s.examples, call.positions = s.positions, call.channels = s.channels, call.group = s.group;
  const int last = s.examples - (call.groups() - 1) * s.group;
  call.last_weight = static_cast<float>(s.group) / static_cast<float>(last);
  call.scalar = s.scalar, call.planes = s.planes;
  call.statistic_rows = s.statistic_rows, call.statistic_channels = s.statistic_channels;
  return call;
}

struct NormSumsReference {
  Values sums, gradients, moments;
};

NormSumsReference norm_sums_reference(const NormSumsSetting& s, const Values& dy, const Values& x, const Values& mean,
                                      const Values& rstd) {
  const int groups = divide_up(s.examples, s.group), rows = s.examples * s.positions;
  const std::size_t size = static_cast<std::size_t>(groups) * s.channels;
  NormSumsReference out{Values(2 * size), Values(2 * s.channels), Values(4 * s.channels)};
  for (int row = 0; row < rows; ++row)
    for (int c = 0; c < s.channels; ++c) {
      const int example = row / s.positions, position = row % s.positions;
      const std::size_t at = s.planes ? (static_cast<std::size_t>(example) * s.channels + c) * s.positions + position
                                      : static_cast<std::size_t>(row) * s.channels + c;
      const int statistic =
          row / (rows / s.statistic_rows) * s.statistic_channels + c / (s.channels / s.statistic_channels);
      const std::size_t target = static_cast<std::size_t>(example / s.group) * s.channels + c;
      out.sums[target] += dy[at] * (x[at] - mean[statistic]) * rstd[statistic];
      out.sums[size + target] += dy[at];
    }
  for (int which = 0; which < 2; ++which)
    for (int g = 0; g < groups; ++g)
      for (int c = 0; c < s.channels; ++c) {
        const double sum = out.sums[which * size + static_cast<std::size_t>(g) * s.channels + c];
        const int examples = std::min(s.group, s.examples - g * s.group);
        out.gradients[which * s.channels + c] += sum;
        out.moments[2 * which * s.channels + c] += sum;
        out.moments[(2 * which + 1) * s.channels + c] += sum * sum * s.group / examples;
      }
  return out;
}

void check_norm_sums_of(Checker& checker, const NormSumsSetting& s) {
  const std::size_t size = static_cast<std::size_t>(s.examples) * s.positions * s.channels;
  const std::size_t statistics = static_cast<std::size_t>(s.statistic_rows) * s.statistic_channels;
  const Values dy = random_values(size, s.scalar, 1, 0.2), x = random_values(size, s.scalar, 2, 3),
               mean = random_values(statistics, Scalar::kFloat32, 3, 3),
               rstd = random_values(statistics, Scalar::kFloat32, 4, 1, 0.2);
  const NormSumsReference wanted = norm_sums_reference(s, dy, x, mean, rstd);
  const Tensor dy_device(dy, s.scalar), x_device(x, s.scalar), sums(wanted.sums.size(), Scalar::kFloat32),
      gradients(wanted.gradients.size(), Scalar::kFloat32), moments(wanted.moments.size(), Scalar::kFloat32);
  const Buffer<float> mean_device(as_floats(mean)), rstd_device(as_floats(rstd));
  NormSums call = norm_sums_call(s);
  call.dy = dy_device.get(), call.x = x_device.get(), call.mean = mean_device.get(), call.rstd = rstd_device.get();
  call.sums = reinterpret_cast<float*>(sums.get());
  call.gradients = reinterpret_cast<float*>(gradients.get()), call.moments = reinterpret_cast<float*>(moments.get());
  const Tensor workspace(norm_sums_workspace(call) / sizeof(float), Scalar::kFloat32);
  call.workspace = reinterpret_cast<float*>(workspace.get());
  norm_sums(call, nullptr);
  const std::string name = "norm sums " + std::to_string(s.examples) + "x" + std::to_string(s.positions) + "x" +
                           std::to_string(s.channels) + " by " + std::to_string(s.group) +
                           (s.scalar == Scalar::kBFloat16 ? " bf16" : " fp32") + (s.planes ? " planes" : "") +
                           ", statistics " + std::to_string(s.statistic_rows) + "x" +
                           std::to_string(s.statistic_channels);
  checker.compare(name, sums.download(), wanted.sums, 1e-5);
  checker.compare(name + ", gradients", gradients.download(), wanted.gradients, 1e-5);
  checker.compare(name + ", moments", moments.download(), wanted.moments, 1e-5);
}

void time_norm_sums_of(int n, int positions, int channels, Scalar type, bool by_row, bool planes) {
  const std::size_t size = static_cast<std::size_t>(n) * positions * channels;
  const Tensor dy(size, type), x(size, type);
  fill_random(dy.get(), size, type, 3), fill_random(x.get(), size, type, 4);
  for (const int group : {128, 1}) {
    const NormSumsSetting s{
        n, positions, channels, group, type, planes, by_row ? n * positions : 1, by_row ? 1 : channels};
    const std::vector<float> ones(static_cast<std::size_t>(s.statistic_rows) * s.statistic_channels, 1.0f);
    const Buffer<float> statistics(ones), gradients(2 * static_cast<std::size_t>(channels)),
        moments(4 * static_cast<std::size_t>(channels));
    NormSums call = norm_sums_call(s);
    const Buffer<float> sums(2 * static_cast<std::size_t>(call.groups()) * channels),
        workspace(norm_sums_workspace(call) / sizeof(float));
    call.dy = dy.get(), call.x = x.get(), call.mean = call.rstd = statistics.get();
    call.sums = sums.get(), call.gradients = gradients.get(), call.moments = moments.get();
    call.workspace = workspace.get();
    const std::string name = std::to_string(n) + "x" + std::to_string(positions) + "x" + std::to_string(channels) +
                             (type == Scalar::kBFloat16 ? " bf16" : " fp32") + (planes ? " planes" : "");
    print_row(group == 1 ? "norm sums exact" : "norm sums ghost", name,
              milliseconds([&](cudaStream_t stream) { norm_sums(call, stream); }),
              2.0 * static_cast<double>(size) * bytes_of(type), 0);
  }
}

}  // namespace

void check_norm_sums(Checker& checker, bool small) {
  for (const Scalar type : {Scalar::kBFloat16, Scalar::kFloat32})
    for (const bool planes : {false, true}) {
      check_norm_sums_of(checker, {6, 9, 16, 2, type, planes, 1, 16});
      check_norm_sums_of(checker, {7, 16, 24, 4, type, planes, 1, 24});  // the last group is smaller
      check_norm_sums_of(checker, {5, 3, 11, 1, type, planes, 1, 11});
      check_norm_sums_of(checker, {5, 8, 12, 2, type, planes, 5, 3});    // group normalisation
      check_norm_sums_of(checker, {12, 2, 40, 6, type, planes, 3, 40});  // ghost batch normalisation
      check_norm_sums_of(checker, {12, 40, 8, 2, type, planes, 3, 8});
      check_norm_sums_of(checker, {6, 4, 1, 6, type, planes, 2, 1});
      if (!small) check_norm_sums_of(checker, {9, 300, 64, 4, type, planes, 1, 64});
      if (!small) check_norm_sums_of(checker, {300, 49, 96, 128, type, planes, 1, 96});
    }
  for (const Scalar type : {Scalar::kBFloat16, Scalar::kFloat32}) {
    check_norm_sums_of(checker, {5, 7, 12, 2, type, false, 35, 1});  // layer normalisation
    check_norm_sums_of(checker, {5, 70, 33, 5, type, false, 350, 1});
    check_norm_sums_of(checker, {40, 1, 520, 16, type, false, 1, 520});
    if (!small) check_norm_sums_of(checker, {33, 65, 192, 16, type, false, 33 * 65, 1});
    if (!small) check_norm_sums_of(checker, {16, 70, 2056, 8, type, false, 1, 2056});
  }
}

void time_norm_sums(int n) {
  for (const Scalar type : {Scalar::kBFloat16, Scalar::kFloat32}) {
    time_norm_sums_of(n, 1024, 64, type, false, false);
    time_norm_sums_of(n, 256, 128, type, false, false);
    time_norm_sums_of(n, 64, 256, type, false, false);
    time_norm_sums_of(n, 16, 512, type, false, false);
  }
  time_norm_sums_of(n, 64, 192, Scalar::kFloat32, true, false);
  time_norm_sums_of(n, 1024, 64, Scalar::kFloat32, false, true);
  time_norm_sums_of(n, 16, 512, Scalar::kFloat32, false, true);
}

}  // namespace covnoise::cuda::bench
