#pragma once
#include "cuda/tensor_core.cuh"

#include <cuda.h>

// The tensor memory accelerator (TMA): one thread issues the copy of a whole box of a tensor, and a barrier in shared
// memory counts its bytes.
namespace covnoise::cuda {

__device__ inline void init_barrier(std::uint32_t barrier, int arrivals = 1) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ inline void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Call it after init_barrier, and after ordinary writes to memory that TMA writes next.
__device__ inline void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ inline void expect_bytes(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ inline void wait_barrier(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
__device__ inline void copy_box(std::uint32_t target, const CUtensorMap& map, std::uint32_t barrier, int channel,
                                int column, int row, int example) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(target),
      "l"(&map), "r"(barrier), "r"(channel), "r"(column), "r"(row), "r"(example)
      : "memory");
}

}  // namespace covnoise::cuda
