#pragma once
#include <cuda_bf16.h>

#include <cstdint>

// Warp-level PTX: asynchronous copies, fragment loads and products. Fragment layouts are those of
// mma.m16n8k16 (bf16) and mma.m16n8k8 (tf32): lane T holds rows T / 4 and T / 4 + 8, columns 2 (T % 4) and 2 (T % 4) +
// 1 of a product.
namespace covnoise::cuda {

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Copies 4, 8 or 16 bytes from global to shared memory, bypassing the registers.
template <int kBytes>
__device__ inline void copy_async(std::uint32_t target, const void* source) {
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(source) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(target), "l"(source), "n"(kBytes) : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
__device__ inline void load_matrices(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ inline void load_matrices_transposed(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ inline std::uint32_t load_word(std::uint32_t address) {
  std::uint32_t value;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(address));
  return value;
}

/// d = a b + c in bf16 with float32 sums: a [16, 16], b [16, 8].
__device__ inline void multiply_bf16(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                                     const float (&c)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

/// d = a b + c in tf32: a [16, 8], b [8, 8].
__device__ inline void multiply_tf32(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                                     const float (&c)[4]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

/// Rounds to the nearest tf32; the tensor core ignores the last 13 bits.
__device__ inline std::uint32_t round_tf32(std::uint32_t bits) { return bits + 0x1000u; }

/// x = high + low, both tf32, up to 2^-22 of x.
__device__ inline void split_tf32(std::uint32_t bits, std::uint32_t& high, std::uint32_t& low) {
  high = bits & 0xffffe000u;
  low = round_tf32(__float_as_uint(__uint_as_float(bits) - __uint_as_float(high)));
}

__device__ inline std::uint32_t square_bf16x2(std::uint32_t bits) {
  __nv_bfloat162 value = *reinterpret_cast<__nv_bfloat162*>(&bits);
  value = __hmul2(value, value);
  return *reinterpret_cast<std::uint32_t*>(&value);
}
__device__ inline std::uint32_t square_float(std::uint32_t bits) {
  return __float_as_uint(__uint_as_float(bits) * __uint_as_float(bits));
}

}  // namespace covnoise::cuda
