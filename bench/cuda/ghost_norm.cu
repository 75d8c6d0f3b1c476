#include "cuda/normalisation/ghost_norm.h"
#include "support.h"

namespace covnoise::cuda::bench {
namespace {

/// Everything one layer needs on the device.
struct Layer {
  GhostShape shape;
  int parts;
  Buffer<float> part_mean, part_m2, part_count, mean, rstd, variance, scale, shift;

  explicit Layer(const GhostShape& s)
      : shape(s),
        parts(ghost_norm_parts(s)),
        part_mean(parts * s.values()),
        part_m2(parts * s.values()),
        part_count(static_cast<std::size_t>(parts) * s.ghosts()),
        mean(s.values()),
        rstd(s.values()),
        variance(s.values()),
        scale(s.values()),
        shift(s.values()) {}
  GhostPartials partials() const { return {part_mean.get(), part_m2.get(), part_count.get(), parts}; }
  GhostStatistics statistics() const { return {mean.get(), rstd.get(), variance.get(), scale.get(), shift.get()}; }
};

struct Reference {
  Values y, mean, variance, dx, dresidual, dweight, dbias, dweight_squares, dbias_squares;
};

struct Setting {
  GhostShape shape;
  bool relu, residual, per_example;
  double offset;  ///< of x, in standard deviations
};

/// The kernel's `y` decides where the ReLU passes, because the reference may differ within rounding of zero.
Reference reference(const Setting& s, const Values& x, const Values& r, const Values& dy, const Values& weight,
                    const Values& bias, const Values& got_y, double eps) {
  const int channels = s.shape.channels, rows = s.shape.ghost_batch * s.shape.positions, ghosts = s.shape.ghosts();
  Reference out{Values(x.size()), Values(s.shape.values()), Values(s.shape.values()),
                Values(x.size()), Values(x.size()),         Values(channels),
                Values(channels), Values(channels),         Values(channels)};
  for (int g = 0; g < ghosts; ++g)
    for (int c = 0; c < channels; ++c) {
      const auto at = [&](int row) { return (static_cast<std::size_t>(g) * rows + row) * channels + c; };
      double mean = 0, variance = 0, sum_d = 0, sum_dx = 0;
      for (int i = 0; i < rows; ++i) mean += x[at(i)] / rows;
      for (int i = 0; i < rows; ++i) variance += (x[at(i)] - mean) * (x[at(i)] - mean) / rows;
      const double rstd = 1 / std::sqrt(variance + eps);
      out.mean[g * channels + c] = mean, out.variance[g * channels + c] = variance;
      double unit_d = 0, unit_dx = 0;
      const int unit = s.per_example ? s.shape.positions : rows;
      for (int i = 0; i < rows; ++i) {
        const double xhat = (x[at(i)] - mean) * rstd;
        double y = weight[c] * xhat + bias[c] + (s.residual ? r[at(i)] : 0);
        if (s.relu) y = std::max(y, 0.0);
        out.y[at(i)] = y;
        const double d = s.relu && got_y[at(i)] <= 0 ? 0 : dy[at(i)];
        out.dresidual[at(i)] = d;
        unit_d += d, unit_dx += d * xhat;
        if ((i + 1) % unit == 0) {
          sum_d += unit_d, sum_dx += unit_dx;
          out.dbias_squares[c] += unit_d * unit_d, out.dweight_squares[c] += unit_dx * unit_dx;
          unit_d = unit_dx = 0;
        }
      }
      for (int i = 0; i < rows; ++i) {
        const double xhat = (x[at(i)] - mean) * rstd;
        out.dx[at(i)] = weight[c] * rstd * (out.dresidual[at(i)] - sum_d / rows - xhat * sum_dx / rows);
      }
      out.dbias[c] += sum_d, out.dweight[c] += sum_dx;
    }
  return out;
}

void check_one(Checker& checker, const Setting& s) {
  const GhostShape& shape = s.shape;
  const auto type = shape.scalar;
  const bool bf16 = type == Scalar::kBFloat16;
  const std::size_t size = static_cast<std::size_t>(shape.examples) * shape.positions * shape.channels;
  const Values x = random_values(size, type, 1, s.offset), r = random_values(size, type, 2),
               dy = random_values(size, type, 3);
  const Values weight = random_values(shape.channels, Scalar::kFloat32, 4, 1, 0.3),
               bias = random_values(shape.channels, Scalar::kFloat32, 5);
  const Tensor x_device(x, type), r_device(r, type), dy_device(dy, type), y(size, type), dx(size, type), dr(size, type);
  const Buffer<float> weight_device(as_floats(weight)), bias_device(as_floats(bias));
  const Layer layer(shape);
  ghost_norm_partials(shape, x_device.get(), layer.partials(), nullptr);
  ghost_norm_finish(shape, layer.partials(), weight_device.get(), bias_device.get(), 1e-5f, layer.statistics(),
                    nullptr);
  ghost_norm_apply(shape, x_device.get(), s.residual ? r_device.get() : nullptr, s.relu, layer.statistics(), y.get(),
                   nullptr);
  const Values got_y = y.download();
  const Reference wanted = reference(s, x, r, dy, weight, bias, got_y, 1e-5);
  const std::string name = "norm " + std::to_string(shape.examples) + "x" + std::to_string(shape.positions) + "x" +
                           std::to_string(shape.channels) + (bf16 ? " bf16" : " fp32") + (s.relu ? " relu" : "") +
                           (s.residual ? " residual" : "") + (s.per_example ? " per example" : "") +
                           (s.offset > 1 ? " offset" : "");
  const double tolerance = bf16 ? 4e-3 : 1e-5 * std::max(1.0, s.offset / 10);
  checker.compare(name + ", mean", as_values(layer.mean.download()), wanted.mean, 1e-6);
  checker.compare(name + ", variance", as_values(layer.variance.download()), wanted.variance, 1e-5);
  checker.compare(name + ", y", got_y, wanted.y, tolerance);

  const std::vector<float> zeros(shape.channels);
  const Buffer<float> dweight(zeros), dbias(zeros), dweight_squares(zeros), dbias_squares(zeros);
  GhostNormBackward call;
  call.shape = shape, call.x = x_device.get(), call.dy = dy_device.get(), call.y = y.get();
  call.weight = weight_device.get(), call.statistics = layer.statistics(), call.relu = s.relu,
  call.residual = s.residual;
  call.dx = dx.get(), call.dresidual = s.residual ? dr.get() : nullptr;
  call.dweight = dweight.get(), call.dbias = dbias.get();
  call.dweight_squares = dweight_squares.get(), call.dbias_squares = dbias_squares.get();
  call.squares_per_example = s.per_example;
  const Buffer<std::uint8_t> workspace(ghost_norm_backward_workspace(call));
  call.workspace = reinterpret_cast<float*>(workspace.get());
  ghost_norm_backward(call, nullptr);
  checker.compare(name + ", dx", dx.download(), wanted.dx, tolerance);
  if (s.residual) checker.compare(name + ", dresidual", dr.download(), wanted.dresidual, 1e-7);
  checker.compare(name + ", dweight", as_values(dweight.download()), wanted.dweight, 1e-5 * std::max(1.0, s.offset));
  checker.compare(name + ", dbias", as_values(dbias.download()), wanted.dbias, 1e-5);
  checker.compare(name + ", dweight squares", as_values(dweight_squares.download()), wanted.dweight_squares,
                  1e-5 * std::max(1.0, s.offset));
  checker.compare(name + ", dbias squares", as_values(dbias_squares.download()), wanted.dbias_squares, 1e-5);
}

void check_running(Checker& checker) {
  const GhostShape shape{12, 10, 24, 4};
  const Values mean = random_values(shape.values(), Scalar::kFloat32, 1),
               variance = random_values(shape.values(), Scalar::kFloat32, 2);
  const Buffer<float> mean_device(as_floats(mean)), variance_device(as_floats(variance));
  const Buffer<float> running_mean(std::vector<float>(24, 0.5f)), running_variance(std::vector<float>(24, 2.0f));
  ghost_norm_running(shape, {mean_device.get(), nullptr, variance_device.get()}, 0.1f, running_mean.get(),
                     running_variance.get(), nullptr);
  Values wanted(24, 0.5), wanted_variance(24, 2.0);
  for (int g = 0; g < 3; ++g)
    for (int c = 0; c < 24; ++c) {
      wanted[c] = 0.9 * wanted[c] + 0.1 * mean[g * 24 + c];
      wanted_variance[c] = 0.9 * wanted_variance[c] + 0.1 * 40 / 39 * variance[g * 24 + c];
    }
  checker.compare("norm running mean", as_values(running_mean.download()), wanted, 1e-6);
  checker.compare("norm running variance", as_values(running_variance.download()), wanted_variance, 1e-6);
}

void time_one(int n, int side, int channels, Scalar type, int ghost_batch = 128) {
  const GhostShape shape{n, side * side, channels, ghost_batch, type};
  const std::size_t size = static_cast<std::size_t>(n) * side * side * channels;
  const Tensor x(size, type), r(size, type), y(size, type), dy(size, type), dx(size, type), dr(size, type);
  for (const Tensor* t : {&x, &r, &dy}) fill_random(t->get(), size, type, 7);
  const Buffer<float> weight(std::vector<float>(channels, 1.0f)), bias(std::vector<float>(channels, 0.1f));
  const Layer layer(shape);
  const std::string name = std::to_string(n) + "x" + std::to_string(side) + "x" + std::to_string(side) + "x" +
                           std::to_string(channels) + (type == Scalar::kBFloat16 ? " bf16" : " fp32") +
                           (ghost_batch == n ? " one batch" : "");
  const double bytes = static_cast<double>(size) * bytes_of(type);
  const auto statistics = [&](cudaStream_t s) {
    ghost_norm_partials(shape, x.get(), layer.partials(), s);
    ghost_norm_finish(shape, layer.partials(), weight.get(), bias.get(), 1e-5f, layer.statistics(), s);
  };
  print_row("norm statistics", name, milliseconds(statistics), bytes, 0);
  for (const bool residual : {false, true}) {
    const void* added = residual ? r.get() : nullptr;
    const auto apply = [&](cudaStream_t s) {
      ghost_norm_apply(shape, x.get(), added, true, layer.statistics(), y.get(), s);
    };
    const auto both = [&](cudaStream_t s) { statistics(s), apply(s); };
    const std::string tail = residual ? " add" : "";
    print_row("norm apply relu" + tail, name, milliseconds(apply), bytes * (residual ? 3 : 2), 0);
    print_row("norm forward relu" + tail, name, milliseconds(both), bytes * (residual ? 3 : 2), 0);
    for (const bool per_example : {false, true}) {
      const Buffer<float> dweight(weight.download()), dbias(weight.download()), a(weight.download()),
          b(weight.download());
      GhostNormBackward call;
      call.shape = shape, call.x = x.get(), call.dy = dy.get(), call.y = y.get(), call.weight = weight.get();
      call.statistics = layer.statistics(), call.relu = true, call.residual = residual;
      call.dx = dx.get(), call.dresidual = residual ? dr.get() : nullptr;
      call.dweight = dweight.get(), call.dbias = dbias.get(), call.dweight_squares = a.get(),
      call.dbias_squares = b.get();
      call.squares_per_example = per_example;
      const Buffer<std::uint8_t> workspace(ghost_norm_backward_workspace(call));
      call.workspace = reinterpret_cast<float*>(workspace.get());
      print_row("norm backward relu" + tail + (per_example ? " exact" : " ghost"), name,
                milliseconds([&](cudaStream_t s) { ghost_norm_backward(call, s); }), bytes * (residual ? 5 : 3), 0);
    }
  }
}

}  // namespace

void check_ghost_norm(Checker& checker, bool small) {
  check_running(checker);
  for (const Scalar type : {Scalar::kBFloat16, Scalar::kFloat32})
    for (const bool relu : {false, true})
      for (const bool residual : {false, true})
        for (const bool per_example : {false, true}) {
          check_one(checker, {{6, small ? 9 : 256, 16, 3, type}, relu, residual, per_example, 0});
          check_one(checker, {{4, 4, 20, 2, type}, relu, residual, per_example, 0});
          if (!small) check_one(checker, {{8, 16, 96, 4, type}, relu, residual, per_example, 0});
        }
  check_one(checker, {{6, 64, 32, 3, Scalar::kFloat32}, false, false, true, 1000});
  check_one(checker, {{40, small ? 9 : 1024, 64, 40, Scalar::kFloat32}, false, false, true, 0});  // one ghost batch
  if (!small) check_one(checker, {{64, 64, 512, 32, Scalar::kFloat32}, true, false, false, 0});
}

void time_ghost_norm(int n) {
  time_one(n, 32, 16, Scalar::kBFloat16);
  time_one(n, 16, 32, Scalar::kBFloat16);
  time_one(n, 8, 64, Scalar::kBFloat16);
  time_one(n, 32, 16, Scalar::kFloat32);
  time_one(n, 32, 64, Scalar::kBFloat16, n);
  time_one(n, 4, 512, Scalar::kBFloat16, n);
}

}  // namespace covnoise::cuda::bench
