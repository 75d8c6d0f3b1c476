#pragma once
#include "covnoise/ops/internal/optional_tensor.h"
#include "cuda/types.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

// Shared by the files that bind the kernels to PyTorch's dispatcher.
namespace covnoise::cuda {

inline cudaStream_t current_stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

inline Scalar scalar_of(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.scalar_type() == at::kBFloat16 || tensor.scalar_type() == at::kFloat,
              "covnoise's kernels on a GPU take bfloat16 or float, not ", tensor.scalar_type(),
              "; double precision needs a CPU");
  return tensor.scalar_type() == at::kBFloat16 ? Scalar::kBFloat16 : Scalar::kFloat32;
}

/// The layout in which the kernels read activations: [N, H, W, C] in memory.
inline at::Tensor channels_last(const at::Tensor& tensor) { return tensor.contiguous(at::MemoryFormat::ChannelsLast); }

inline at::Tensor empty_channels_last(at::IntArrayRef sizes, const at::Tensor& like) {
  return at::empty(sizes, like.options().memory_format(at::MemoryFormat::ChannelsLast));
}

inline at::Tensor workspace(std::size_t bytes, const at::Tensor& like) {
  return at::empty({static_cast<std::int64_t>(bytes)}, like.options().dtype(at::kByte));
}

/// Where results are added up; null if they are not needed.
inline float* added_to(const OptionalTensor& tensor, std::int64_t elements) {
  if (!tensor.has_value() || !tensor->defined()) return nullptr;
  TORCH_CHECK(tensor->is_contiguous() && tensor->scalar_type() == at::kFloat && tensor->numel() == elements &&
                  tensor->is_cuda(),
              "squares on a GPU must be contiguous float32 tensors there, of ", elements, " elements");
  return tensor->data_ptr<float>();
}

inline const float* parameter(const at::Tensor& tensor, std::int64_t elements) {
  TORCH_CHECK(tensor.is_contiguous() && tensor.scalar_type() == at::kFloat && tensor.numel() == elements,
              "parameters on a GPU must be contiguous float32 tensors");
  return tensor.data_ptr<float>();
}

}  // namespace covnoise::cuda
