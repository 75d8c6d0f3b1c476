#include "ops/random_kernel.h"

#include <cmath>

namespace covnoise {
namespace {

constexpr int kLanes = 64;  // blocks of four normals computed together
constexpr std::int64_t kNormals = std::int64_t{4} * kLanes;

/// Normals of blocks [block, block + kLanes). Plain loops over lanes, which compilers turn into vectors.
[[gnu::always_inline]] inline void compute_blocks(std::uint64_t seed, std::uint32_t step, std::uint32_t purpose,
                                                  std::uint64_t block, float* out) {
  std::uint32_t x0[kLanes], x1[kLanes], x2[kLanes], x3[kLanes];
  for (int l = 0; l < kLanes; ++l) {
    x0[l] = static_cast<std::uint32_t>(block + l);
    x1[l] = static_cast<std::uint32_t>((block + l) >> 32);
    x2[l] = step;
    x3[l] = purpose;
  }
  std::uint32_t key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int l = 0; l < kLanes; ++l) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * x0[l];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * x2[l];
      x0[l] = static_cast<std::uint32_t>(p1 >> 32) ^ x1[l] ^ key0;
      x1[l] = static_cast<std::uint32_t>(p1);
      x2[l] = static_cast<std::uint32_t>(p0 >> 32) ^ x3[l] ^ key1;
      x3[l] = static_cast<std::uint32_t>(p0);
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  float n[4][kLanes];
  for (int l = 0; l < kLanes; ++l) {
    const NormalPair p = normal_pair(x0[l], x1[l]);
    n[0][l] = p.first;
    n[1][l] = p.second;
  }
  for (int l = 0; l < kLanes; ++l) {
    const NormalPair p = normal_pair(x2[l], x3[l]);
    n[2][l] = p.first;
    n[3][l] = p.second;
  }
  for (int l = 0; l < kLanes; ++l) {
    for (int j = 0; j < 4; ++j) out[4 * l + j] = n[j][l];
  }
}

void blocks_portable(std::uint64_t seed, std::uint32_t step, std::uint32_t purpose, std::uint64_t block, float* out) {
  compute_blocks(seed, step, purpose, block, out);
}

// By what the processor has, not by its name as target_clones("arch=...") would, which leaves later ones with SSE2.
#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2,fma"))) void blocks_avx2(std::uint64_t seed, std::uint32_t step, std::uint32_t purpose,
                                                     std::uint64_t block, float* out) {
  compute_blocks(seed, step, purpose, block, out);
}

__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma"))) void blocks_avx512(
    std::uint64_t seed, std::uint32_t step, std::uint32_t purpose, std::uint64_t block, float* out) {
  compute_blocks(seed, step, purpose, block, out);
}

decltype(&blocks_portable) fastest_blocks() {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  return avx512 ? blocks_avx512 : avx2 ? blocks_avx2 : blocks_portable;
}
#else
decltype(&blocks_portable) fastest_blocks() { return blocks_portable; }
#endif

}  // namespace

void normals(const RandomStream& stream, std::int64_t begin, std::int64_t end, float* out) {
  static const auto blocks = fastest_blocks();
  const auto purpose = static_cast<std::uint32_t>(stream.purpose);
  float tail[kNormals];
  for (std::int64_t i = begin; i < end; i += kNormals) {
    const bool whole = i + kNormals <= end;
    blocks(stream.seed, stream.step, purpose, stream.first + static_cast<std::uint64_t>(i) / 4,
           whole ? out + (i - begin) : tail);
    for (std::int64_t j = i; !whole && j < end; ++j) out[j - begin] = tail[j - i];
  }
}

template <typename T>
void scale_normals(std::int64_t count, const T* variance, T scale, const float* normal, T* noise) {
  for (std::int64_t i = 0; i < count; ++i) noise[i] = std::sqrt(variance[i]) * static_cast<T>(normal[i]) * scale;
}
template void scale_normals<float>(std::int64_t, const float*, float, const float*, float*);
template void scale_normals<double>(std::int64_t, const double*, double, const float*, double*);

}  // namespace covnoise
