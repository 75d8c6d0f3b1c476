#include "covnoise/ops/random.h"
#include "cuda/augment.h"
#include "cuda/bind.h"
#include "cuda/kernel_choice.h"
#include "cuda/update.h"
#include "ops/portable/portable.h"
#include "ops/sample_diagonal.h"

#include <torch/library.h>

namespace covnoise::cuda {
namespace {

float* floats(const at::Tensor& buffer, std::int64_t size) {
  TORCH_CHECK(
      buffer.is_contiguous() && buffer.numel() == size && buffer.scalar_type() == at::kFloat && buffer.is_cuda(),
      "flat buffers on a GPU must be contiguous float32 tensors of one size there");
  return buffer.data_ptr<float>();
}

/// Low precision only for normals.
Number number_of(const at::Tensor& out, bool low) {
  const auto type = out.scalar_type();
  TORCH_CHECK(out.is_contiguous() && (type == at::kFloat || type == at::kDouble || (low && type == at::kBFloat16)),
              "these random numbers fill contiguous tensors of float or double", low ? " or bfloat16" : "");
  return type == at::kDouble ? Number::kDouble : type == at::kFloat ? Number::kFloat : Number::kBFloat16;
}

RandomStream stream_of(std::int64_t seed, std::int64_t purpose, std::int64_t step, std::int64_t first) {
  return {static_cast<std::uint64_t>(seed), static_cast<Purpose>(purpose), static_cast<std::uint32_t>(step),
          static_cast<std::uint64_t>(first)};
}

/// The numbers of the CPU's kernel.
void fill_by_host(at::Tensor& out, Distribution distribution, const RandomStream& stream) {
  const auto host = at::empty(out.sizes(), out.options().device(at::kCPU));
  switch (distribution) {
    case Distribution::kNormal:
      fill_normal(host, stream);
      break;
    case Distribution::kSigns:
      fill_signs(host, stream);
      break;
    case Distribution::kUniform:
      fill_uniform(host, stream);
      break;
  }
  out.copy_(host);
}

void fill(at::Tensor out, std::int64_t distribution, std::int64_t seed, std::int64_t purpose, std::int64_t step,
          std::int64_t first) {
  const c10::cuda::CUDAGuard guard(out.device());
  const auto of = static_cast<Distribution>(distribution);
  if (kernels_of(out.device()) == GpuKernels::kNone)
    return fill_by_host(out, of, stream_of(seed, purpose, step, first));
  fill_random(out.data_ptr(), number_of(out, of == Distribution::kNormal), out.numel(), of,
              stream_of(seed, purpose, step, first), current_stream());
}

void fill_of_variance(at::Tensor out, const at::Tensor& variance, std::int64_t seed, std::int64_t purpose,
                      std::int64_t step, std::int64_t first) {
  const c10::cuda::CUDAGuard guard(out.device());
  TORCH_CHECK(
      variance.is_contiguous() && variance.numel() == out.numel() && variance.scalar_type() == out.scalar_type(),
      "variances must be contiguous, and of the size and type of what they are for");
  if (kernels_of(out.device()) == GpuKernels::kNone) {
    fill_by_host(out, Distribution::kNormal, stream_of(seed, purpose, step, first));
    out.mul_(variance.sqrt());
    return;
  }
  fill_normal_of_variance(out.data_ptr(), variance.data_ptr(), number_of(out, false), out.numel(),
                          stream_of(seed, purpose, step, first), current_stream());
}

/// By PyTorch's operators and the CPU's numbers.
void sample_by_host(const DiagonalSamples& call, std::size_t k, at::Tensor& sample, const RandomStream& stream) {
  const auto sums = call.moments[k].select(0, 0), squares = call.moments[k].select(0, 1);
  const auto variance = squares.addcmul(sums, sums, -call.of_sums).clamp_min_(0).mul_(call.factor);
  auto normal = at::empty(sample.sizes(), sample.options());
  fill_by_host(normal, Distribution::kNormal, stream);
  sample.copy_(normal.mul_(variance.sqrt()).mul_(call.scales[k]));
}

/// Adds a sample to the table; `out` is contiguous, or an image with channels last.
void add_sample(DiagonalSampleTable& table, const DiagonalSamples& call, std::size_t k, const at::Tensor& out) {
  const bool images = !out.is_contiguous();
  table.samples[table.count++] = {call.moments[k].data_ptr(),
                                  out.data_ptr(),
                                  out.numel(),
                                  static_cast<std::uint64_t>(call.firsts[k]),
                                  call.scales[k],
                                  images ? static_cast<int>(out.size(1)) : 1,
                                  images ? static_cast<int>(out.size(2) * out.size(3)) : 1};
}

std::vector<at::Tensor> sample_diagonal_of(at::TensorList moments, at::TensorList like, double of_sums, double factor,
                                           at::ArrayRef<double> scales, std::int64_t seed, std::int64_t purpose,
                                           std::int64_t step, at::IntArrayRef firsts) {
  const DiagonalSamples call{moments, of_sums, factor, scales, firsts};
  call.check(like);
  std::vector<at::Tensor> samples;
  if (moments.empty()) return samples;
  const c10::cuda::CUDAGuard guard(moments[0].device());
  const bool by_kernel = kernels_of(moments[0].device()) != GpuKernels::kNone;
  const auto number = number_of(moments[0], false);
  DiagonalSampleTable table;
  table.of_sums = of_sums, table.factor = factor, table.random = stream_of(seed, purpose, step, 0);
  for (std::size_t k = 0; k < moments.size(); ++k) {
    auto sample = call.empty(k, like[k]);
    const bool known = sample.is_contiguous() || sample.is_contiguous(at::MemoryFormat::ChannelsLast);
    if (!by_kernel || !known) {
      sample_by_host(call, k, sample, stream_of(seed, purpose, step, firsts[k]));
    } else {
      add_sample(table, call, k, sample);
    }
    samples.push_back(std::move(sample));
    if (table.count == DiagonalSampleTable::kMost || k + 1 == moments.size()) {
      sample_diagonal(table, number, current_stream());
      table.count = 0;
    }
  }
  return samples;
}

/// sqrt(variance) times the normals of the noise stream.
at::Tensor drawn(const at::Tensor& variance, std::int64_t seed, std::int64_t step) {
  auto out = at::empty_like(variance);
  fill_of_variance(out, variance, seed, static_cast<std::int64_t>(Purpose::kNoise), step, 0);
  return out;
}

/// The noise of a step as a tensor like `values`; zeros without any.
at::Tensor noise_of(const at::Tensor& values, const OptionalTensor& noise, const OptionalTensor& variance,
                    double noise_scale, std::int64_t seed, std::int64_t step) {
  if (variance.has_value()) return drawn(*variance, seed, step).mul_(noise_scale);
  return noise.has_value() ? *noise : at::zeros_like(values);
}

at::Tensor clipped(const at::Tensor& tensor, const OptionalTensor& clip) {
  return clip.has_value() ? tensor * *clip : tensor;
}

/// Whether the kernels, which take four elements at once, take such a buffer; the program's own always are such.
bool is_whole(const at::Tensor& values) { return has_general_kernels(values) && values.numel() % 4 == 0; }

/// What both optimizers' kernels get.
void set_common(Update& call, const at::Tensor& values, const at::Tensor& gradient, const OptionalTensor& noise,
                const OptionalTensor& variance, double noise_scale, std::int64_t seed, std::int64_t step,
                const OptionalTensor& clip, bool noise_in_gradient) {
  call.size = values.numel();
  call.theta = floats(values, call.size);
  call.gradient = floats(gradient, call.size);
  call.clip = clip.has_value() ? floats(*clip, 1) : nullptr;
  call.noise = variance.has_value() ? UpdateNoise::kVariance
               : noise.has_value()  ? UpdateNoise::kGiven
                                    : UpdateNoise::kNone;
  call.noise_in_gradient = noise_in_gradient;
  if (call.noise != UpdateNoise::kNone) call.values = floats(variance.has_value() ? *variance : *noise, call.size);
  call.noise_scale = static_cast<float>(noise_scale);
  call.seed = static_cast<std::uint64_t>(seed), call.step = static_cast<std::uint32_t>(step);
}

void sgd_update(at::Tensor values, const at::Tensor& gradient, at::Tensor momentum, const OptionalTensor& noise,
                const OptionalTensor& variance, double noise_scale, std::int64_t seed, std::int64_t step, double lr,
                double mu, double weight_decay, const OptionalTensor& clip, bool nesterov, bool noise_in_gradient) {
  const c10::cuda::CUDAGuard guard(values.device());
  if (!is_whole(values)) {
    const auto n = clipped(noise_of(values, noise, variance, noise_scale, seed, step), clip);
    auto d = clipped(gradient, clip).add(values, weight_decay);
    if (noise_in_gradient) d.add_(n);
    if (mu != 0) momentum.mul_(mu).add_(d);
    const auto direction = mu == 0 ? d : nesterov ? d.add(momentum, mu) : momentum;
    values.sub_(noise_in_gradient ? direction : direction + n, lr);
    return;
  }
  Update call;
  set_common(call, values, gradient, noise, variance, noise_scale, seed, step, clip, noise_in_gradient);
  call.momentum_buffer = floats(momentum, call.size);
  call.lr = static_cast<float>(lr), call.momentum = static_cast<float>(mu);
  call.weight_decay = static_cast<float>(weight_decay), call.nesterov = nesterov;
  update(call, current_stream());
}

void adamw_of(at::Tensor values, const at::Tensor& gradient, at::Tensor first, at::Tensor second,
              const OptionalTensor& noise, const OptionalTensor& variance, double noise_scale, std::int64_t seed,
              std::int64_t noise_step, at::ArrayRef<double> rule, const OptionalTensor& decayed,
              const OptionalTensor& clip, bool noise_in_gradient) {
  const c10::cuda::CUDAGuard guard(values.device());
  const double lr = rule[0], beta1 = rule[1], beta2 = rule[2], eps = rule[3], decay = rule[4];
  if (!is_whole(values)) {
    const auto n = clipped(noise_of(values, noise, variance, noise_scale, seed, noise_step), clip);
    auto d = clipped(gradient, clip);
    if (noise_in_gradient) d = d + n;
    first.mul_(beta1).add_(d, 1 - beta1);
    second.mul_(beta2).addcmul_(d, d, 1 - beta2);
    const auto direction = noise_in_gradient ? first : first.add(n, rule[5]);
    values.sub_(decayed.has_value() ? values * *decayed : values, lr * decay);
    values.addcdiv_(direction, second.sqrt().div_(rule[6]).add_(eps), -lr / rule[5]);
    return;
  }
  AdamWUpdate call;
  set_common(call, values, gradient, noise, variance, noise_scale, seed, noise_step, clip, noise_in_gradient);
  call.momentum_buffer = floats(first, call.size), call.second = floats(second, call.size);
  call.decayed = decayed.has_value() ? floats(*decayed, call.size) : nullptr;
  call.lr = static_cast<float>(lr), call.momentum = static_cast<float>(beta1), call.beta2 = static_cast<float>(beta2);
  call.eps = static_cast<float>(eps), call.weight_decay = static_cast<float>(decay);
  call.correction1 = static_cast<float>(rule[5]), call.root_correction2 = static_cast<float>(rule[6]);
  adamw_update(call, current_stream());
}

void group_variance_of(at::Tensor squares, const at::Tensor& mean, double of_mean, double factor) {
  const c10::cuda::CUDAGuard guard(squares.device());
  if (!has_general_kernels(squares)) {
    squares.addcmul_(mean, mean, -of_mean).clamp_min_(0).mul_(factor);
    return;
  }
  group_variance(floats(squares, squares.numel()), floats(mean, squares.numel()), static_cast<float>(of_mean),
                 static_cast<float>(factor), squares.numel(), current_stream());
}

at::Tensor load_images(const at::Tensor& images, const at::Tensor& indices, at::ArrayRef<double> mean,
                       at::ArrayRef<double> std, bool augment, std::int64_t seed, std::int64_t epoch,
                       at::ScalarType type) {
  const c10::cuda::CUDAGuard guard(images.device());
  TORCH_CHECK(indices.is_cuda() && indices.scalar_type() == at::kLong && images.is_contiguous(),
              "images on a GPU are loaded by int64 indices there");
  if (kernels_of(images.device()) == GpuKernels::kNone)
    return portable::load_images(images, indices, mean, std, augment, seed, epoch, type);
  Augmentation call;
  const auto order = indices.contiguous();
  call.images = images.data_ptr<std::uint8_t>(), call.indices = order.data_ptr<std::int64_t>();
  call.epoch = static_cast<std::uint32_t>(epoch), call.seed = static_cast<std::uint64_t>(seed);
  call.examples = static_cast<int>(indices.numel()), call.channels = static_cast<int>(images.size(1));
  call.height = static_cast<int>(images.size(2)), call.width = static_cast<int>(images.size(3));
  call.augment = augment;
  TORCH_CHECK(mean.size() <= kMostImageChannels, "images on a GPU have at most ", kMostImageChannels, " channels");
  for (std::size_t c = 0; c < mean.size(); ++c) {
    call.scale[c] = static_cast<float>(1.0 / (255.0 * std[c]));
    call.shift[c] = static_cast<float>(-mean[c] / std[c]);
  }
  const bool widened = type == at::kDouble;
  auto out =
      at::empty({indices.numel(), images.size(1), images.size(2), images.size(3)},
                images.options().dtype(widened ? at::kFloat : type).memory_format(at::MemoryFormat::ChannelsLast));
  call.scalar = scalar_of(out);
  call.out = out.data_ptr();
  if (call.examples > 0) load_batch(call, current_stream());
  return out.to(type);
}

}  // namespace

TORCH_LIBRARY_IMPL(covnoise, CUDA, m) {
  m.impl("sgd_update", sgd_update);
  m.impl("adamw_update", adamw_of);
  m.impl("fill_random", fill);
  m.impl("fill_normal_of_variance", fill_of_variance);
  m.impl("sample_diagonal", sample_diagonal_of);
  m.impl("group_variance", group_variance_of);
  m.impl("load_images", load_images);
}

}  // namespace covnoise::cuda
