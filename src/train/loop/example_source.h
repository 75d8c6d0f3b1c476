#pragma once
#include "covnoise/data/loader.h"
#include "covnoise/noise/gradient_pass.h"

#include <cstdint>

namespace covnoise {

/// Examples that a run trains with or is evaluated on. Has no state, as Loader.
class ExampleSource {
 public:
  virtual ~ExampleSource() = default;
  virtual std::int64_t size() const = 0;
  virtual at::Device device() const = 0;
  virtual at::Tensor order(std::int64_t epoch) const = 0;  ///< int64 [N], a permutation
  /// The examples `indices` as `epoch` sees them, and as evaluations do.
  virtual GradientPass::Examples load(const at::Tensor& indices, std::int64_t epoch) const = 0;
  virtual GradientPass::Examples plain(const at::Tensor& indices) const = 0;
  virtual void prefetch(const at::Tensor&) const {}  ///< these are wanted next
};

/// Images and labels.
class LoaderSource final : public ExampleSource {
 public:
  explicit LoaderSource(Loader loader) : loader_(std::move(loader)) {}
  std::int64_t size() const override { return loader_.size(); }
  at::Device device() const override { return loader_.device(); }
  at::Tensor order(std::int64_t epoch) const override { return loader_.order(epoch); }
  GradientPass::Examples load(const at::Tensor& indices, std::int64_t epoch) const override {
    return {loader_.images(indices, epoch), loader_.labels(indices)};
  }
  GradientPass::Examples plain(const at::Tensor& indices) const override {
    return {loader_.plain_images(indices), loader_.labels(indices)};
  }
  void prefetch(const at::Tensor& indices) const override { loader_.prefetch(indices); }

 private:
  Loader loader_;
};

/// Tensors as they are.
class TensorSource final : public ExampleSource {
 public:
  TensorSource(GradientPass::Examples tensors, std::uint64_t seed, at::Device device);
  std::int64_t size() const override { return size_; }
  at::Device device() const override { return device_; }
  at::Tensor order(std::int64_t epoch) const override;
  GradientPass::Examples load(const at::Tensor& indices, std::int64_t) const override { return plain(indices); }
  GradientPass::Examples plain(const at::Tensor& indices) const override;

 private:
  GradientPass::Examples tensors_;
  std::uint64_t seed_;
  at::Device device_;
  std::int64_t size_ = 0;
};

}  // namespace covnoise
