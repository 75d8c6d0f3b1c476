#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace covnoise {

/// The trainable parameters of a network, each tensor once: one that several modules share has its first name.
std::vector<std::pair<std::string, at::Tensor>> trainable_parameters(const torch::nn::Module& module);

/// All trainable parameters of a network in one buffer, and their gradients in another of the same layout: the
/// parameters become views, so that the update, the noise and a reduction over machines are one operation each, not one
/// per parameter. Every parameter starts at a multiple of 16 elements (64 bytes in float32); the gaps stay zero.
class FlatParameters {
 public:
  /// One parameter in the buffer.
  struct Entry {
    std::string name;                 ///< as PyTorch names it: layer1.0.conv1.weight; the first name of a shared one
    std::int64_t offset;              ///< first element in the buffer
    std::vector<std::int64_t> sizes;  ///< its shape
    std::int64_t numel;               ///< its number of elements
  };

  /// Moves the trainable parameters of `module` (their values are kept) into a new buffer. They must have one type and
  /// device.
  explicit FlatParameters(torch::nn::Module& module);

  const std::vector<Entry>& entries() const { return entries_; }
  std::int64_t size() const { return values_.numel(); }  ///< with gaps
  std::int64_t count() const { return count_; }          ///< d, the number of trainable parameters

  /// The parameters [begin, end) of entries() as a layout of their own, in the same memory.
  FlatParameters slice(std::size_t begin, std::size_t end) const;
  /// Where a part begins in the whole, of which it is one; 0 for the whole.
  std::size_t first_entry() const { return first_entry_; }
  std::int64_t first_element() const { return first_element_; }
  at::Tensor slice_of(const at::Tensor& whole) const;  ///< of a buffer of the whole's layout; undefined of an undefined

  at::Tensor& values() { return values_; }
  at::Tensor& gradient() { return gradient_; }
  const at::Tensor& values() const { return values_; }
  const at::Tensor& gradient() const { return gradient_; }

  at::Tensor zeros() const;                                             ///< a new buffer of the same layout
  at::Tensor view(const at::Tensor& buffer, const Entry& entry) const;  ///< one parameter's part of such a buffer
  std::vector<at::Tensor> views(const at::Tensor& buffer) const;        ///< in the order of entries()
  void clear_gaps(at::Tensor& buffer) const;                            ///< sets the gaps of a buffer to zero

 private:
  FlatParameters() = default;

  std::vector<Entry> entries_;
  at::Tensor values_, gradient_;
  std::int64_t count_ = 0;
  std::size_t first_entry_ = 0;
  std::int64_t first_element_ = 0;
};

}  // namespace covnoise
