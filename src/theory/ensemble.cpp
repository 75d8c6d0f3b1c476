#include "theory/ensemble.h"

#include "covnoise/ops/random.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>

namespace covnoise::theory {
namespace {

/// Limits OpenBLAS to one thread per product while it exists: our threads would otherwise queue for OpenBLAS's own.
/// Other libraries (MKL, OpenBLAS with OpenMP) detect that they are called from a parallel region.
class OneBlasThread {
 public:
  OneBlasThread() {
    const auto kind = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "openblas_get_parallel"));
    if (kind == nullptr || kind() != kOwnThreads) return;
    const auto get = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "openblas_get_num_threads"));
    set_ = reinterpret_cast<void (*)(int)>(::dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
    if (get != nullptr) before_ = get();
    if (set_ != nullptr) set_(1);
  }
  ~OneBlasThread() {
    if (set_ != nullptr) set_(before_);
  }
  OneBlasThread(const OneBlasThread&) = delete;
  OneBlasThread& operator=(const OneBlasThread&) = delete;

 private:
  static constexpr int kOwnThreads = 1;
  void (*set_)(int) = nullptr;
  int before_ = 1;
};

/// [theta; xi] of one block, twice: a step writes the new theta into the other one.
class Block {
 public:
  Block(const at::Tensor& theta_0, std::int64_t width, at::ScalarType dtype) : dimension_(theta_0.numel()) {
    for (auto& half : halves_) half = at::empty({2 * dimension_, width}, dtype);
    theta().copy_(theta_0.unsqueeze(1).expand({dimension_, width}));
  }

  at::Tensor theta() const { return halves_[current_].narrow(0, 0, dimension_); }

  void step(const at::Tensor& operation, double rate, const RandomStream& stream) {
    fill_normal(halves_[current_].narrow(0, dimension_, dimension_), stream);
    at::Tensor next = halves_[1 - current_].narrow(0, 0, dimension_);
    at::addmm_out(next, theta(), operation, halves_[current_], 1, rate);
    current_ = 1 - current_;
  }

 private:
  std::int64_t dimension_;
  at::Tensor halves_[2];
  int current_ = 0;
};

}  // namespace

void simulate_ensemble(const at::Tensor& theta_0, const at::Tensor& B, const at::Tensor& C,
                       const std::function<double(std::int64_t)>& rate, const EnsembleOptions& options,
                       const Visit& visit) {
  TORCH_CHECK(options.trajectories > 0 && !options.record.empty(),
              "an ensemble needs trajectories and steps to record");
  const at::Tensor operation = at::cat({B, C}, 1).to(options.dtype).contiguous();  // [d, 2 d]
  const OneBlasThread one_thread;
  at::parallel_for(0, ensemble_blocks(options.trajectories), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t block = first; block < last; ++block) {
      const std::int64_t width = std::min(kEnsembleBlock, options.trajectories - block * kEnsembleBlock);
      const std::uint64_t seed = options.seed + 0x9E3779B97F4A7C15u * static_cast<std::uint64_t>(block);
      Block state(theta_0, width, options.dtype);
      std::int64_t k = 0;
      for (std::size_t i = 0; i < options.record.size(); ++i) {
        for (; k < options.record[i]; ++k) {
          state.step(operation, rate(k), {seed, Purpose::kAnalysis, static_cast<std::uint32_t>(k)});
        }
        visit(block, i, state.theta());
      }
    }
  });
}

}  // namespace covnoise::theory
