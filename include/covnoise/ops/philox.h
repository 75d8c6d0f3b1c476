#pragma once
#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define COVNOISE_HOST_DEVICE __host__ __device__
#else
#define COVNOISE_HOST_DEVICE
#endif

namespace covnoise {

/// What a random stream is for. Streams of different purposes never share a counter. Values are part of the results:
/// do not renumber.
enum class Purpose : std::uint32_t {
  kInitialization = 1,
  kOrder = 2,
  kAugmentation = 3,
  kNoise = 4,
  kSigns = 5,
  kLabels = 6,
  kData = 7,
  kAnalysis = 8,
};

struct Philox4 {
  std::uint32_t x[4];
};

/// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): ten rounds of a keyed bijection
/// of a 128-bit counter. A pure function: no state, so any thread can compute any number of any stream.
COVNOISE_HOST_DEVICE inline Philox4 philox(Philox4 counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * counter.x[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * counter.x[2];
    const Philox4 next{{static_cast<std::uint32_t>(p1 >> 32) ^ counter.x[1] ^ key0, static_cast<std::uint32_t>(p1),
                        static_cast<std::uint32_t>(p0 >> 32) ^ counter.x[3] ^ key1, static_cast<std::uint32_t>(p0)}};
    counter = next;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

/// Uniform in the open interval (0, 1), 23 bits: never 0, so that its logarithm is finite, and never 1.
COVNOISE_HOST_DEVICE inline float uniform_open(std::uint32_t bits) {
  return (static_cast<float>(bits >> 9) + 0.5f) * (1.0f / 8388608.0f);
}

/// One stream of random numbers: a pure function of (seed, purpose, step, index). `step` is whatever counts for the
/// purpose: the training step for noise, the epoch for order and augmentation.
struct RandomStream {
  std::uint64_t seed = 0;
  Purpose purpose = Purpose::kNoise;
  std::uint32_t step = 0;

  /// Four independent words for block `index`.
  COVNOISE_HOST_DEVICE Philox4 words(std::uint64_t index) const {
    const Philox4 counter{{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), step,
                           static_cast<std::uint32_t>(purpose)}};
    return philox(counter, static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
  }

  /// Uniform integer in [0, bound) from word 0 of block `index`; bias below 2^-32 * bound.
  COVNOISE_HOST_DEVICE std::uint32_t below(std::uint32_t bound, std::uint64_t index) const {
    return static_cast<std::uint32_t>((std::uint64_t{words(index).x[0]} * bound) >> 32);
  }
};

}  // namespace covnoise
