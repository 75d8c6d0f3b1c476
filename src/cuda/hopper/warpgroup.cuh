#pragma once
#include <cstdint>

// Products of warpgroups (four warps, 128 threads): operands in shared memory, sums in registers. Thread T of a
// warpgroup holds, of a product [64, 128], rows 16 (T / 32) + T % 32 / 4 + {0, 8} and columns 8 j + 2 (T % 4) + {0, 1}:
// element 4 j + 2 (row half) + (column half) of its sums.
namespace covnoise::cuda {

/// Describes an operand in boxes of 64 channels: one row of 128 bytes for each position, swizzled by 128 bytes; the
/// next 64 channels are `box_bytes` further. 16 positions, from a multiple of 8 on, are one step of a product.
__device__ inline std::uint64_t describe_operand(std::uint32_t address, std::uint32_t box_bytes) {
  constexpr std::uint64_t kSwizzle128 = 1ull << 62, kEightRows = static_cast<std::uint64_t>(1024 >> 4) << 32;
  return ((address & 0x3ffff) >> 4) | static_cast<std::uint64_t>(box_bytes >> 4) << 16 | kEightRows | kSwizzle128;
}
constexpr std::uint64_t kDescribedStep = 2048 >> 4;  ///< to be added to a description for the next 16 positions

/// Sets the number of registers of each thread of this warpgroup.
template <int kNumber, bool kMore>
__device__ inline void set_registers() {
  if constexpr (kMore)
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kNumber));
  else
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kNumber));
}

/// Call it before products whose sums other instructions have modified.
__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ inline void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// [low, high] (+)= a^T b: a [16 positions, 64], b [16 positions, 128]. `add` 0 starts a new sum.
__device__ inline void multiply_64x128(float (&low)[32], float (&high)[32], std::uint64_t a, std::uint64_t b, int add) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, p, 1, 1, 1, 1;\n"
      "}"
      : "+f"(low[0]), "+f"(low[1]), "+f"(low[2]), "+f"(low[3]), "+f"(low[4]), "+f"(low[5]), "+f"(low[6]), "+f"(low[7]),
        "+f"(low[8]), "+f"(low[9]), "+f"(low[10]), "+f"(low[11]), "+f"(low[12]), "+f"(low[13]), "+f"(low[14]),
        "+f"(low[15]), "+f"(low[16]), "+f"(low[17]), "+f"(low[18]), "+f"(low[19]), "+f"(low[20]), "+f"(low[21]),
        "+f"(low[22]), "+f"(low[23]), "+f"(low[24]), "+f"(low[25]), "+f"(low[26]), "+f"(low[27]), "+f"(low[28]),
        "+f"(low[29]), "+f"(low[30]), "+f"(low[31]), "+f"(high[0]), "+f"(high[1]), "+f"(high[2]), "+f"(high[3]),
        "+f"(high[4]), "+f"(high[5]), "+f"(high[6]), "+f"(high[7]), "+f"(high[8]), "+f"(high[9]), "+f"(high[10]),
        "+f"(high[11]), "+f"(high[12]), "+f"(high[13]), "+f"(high[14]), "+f"(high[15]), "+f"(high[16]), "+f"(high[17]),
        "+f"(high[18]), "+f"(high[19]), "+f"(high[20]), "+f"(high[21]), "+f"(high[22]), "+f"(high[23]), "+f"(high[24]),
        "+f"(high[25]), "+f"(high[26]), "+f"(high[27]), "+f"(high[28]), "+f"(high[29]), "+f"(high[30]), "+f"(high[31])
      : "l"(a), "l"(b), "r"(add));
}

/// The same with b [16 positions, 64].
__device__ inline void multiply_64x64(float (&d)[32], std::uint64_t a, std::uint64_t b, int add) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, p, 1, 1, 1, 1;\n"
      "}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
        "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"(add));
}

}  // namespace covnoise::cuda
