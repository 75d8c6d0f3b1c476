#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define COVNOISE_HOST_DEVICE __host__ __device__
#else
#define COVNOISE_HOST_DEVICE
#endif

namespace covnoise {

/// What a random stream is for. Streams of different purposes never share a counter. The values decide the results: do
/// not renumber them.
enum class Purpose : std::uint32_t {
  kInitialization = 1,
  kOrder = 2,
  kAugmentation = 3,
  kNoise = 4,
  kSigns = 5,
  kLabels = 6,
  kData = 7,
  kAnalysis = 8,
  kInputs = 9,
  kDropout = 10,
};

/// The nth of many streams for the same purpose; `purpose` itself for n = 0. Purposes are small numbers, and n is above
/// them in the same word of the counter.
constexpr Purpose nth(Purpose purpose, std::uint32_t n) {
  return static_cast<Purpose>(static_cast<std::uint32_t>(purpose) + (n << 8));
}

constexpr int kWordsOfBlock = 4;  ///< words per block of a stream; each gives one number

/// A counter, or the block of random words that it gives.
struct Philox4 {
  std::uint32_t x[kWordsOfBlock];  ///< words, the least significant first
};

/// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): ten rounds of a keyed bijection
/// of a 128-bit counter. A pure function without state, so any thread can compute any number of any stream.
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

/// Uniform in (0, 1): the middle of one of 2^23 equal cells, so never 0 and never 1.
COVNOISE_HOST_DEVICE inline float uniform_open(std::uint32_t bits) {
  return (static_cast<float>(bits >> 9) + 0.5f) * (1.0f / 8388608.0f);
}

/// Two independent standard normals.
struct NormalPair {
  float first, second;  ///< r cos and r sin
};

/// Box-Muller: two independent standard normals from two words, r cos(2 pi u) and r sin(2 pi u), r = sqrt(-2 ln v).
/// Logarithm and sine are short polynomials without branches (errors below 4e-7), so that a compiler can use vectors
/// and so that host and device agree to rounding. v keeps 31 bits: normals reach 6.5.
COVNOISE_HOST_DEVICE inline NormalPair normal_pair(std::uint32_t radius_bits, std::uint32_t angle_bits) {
  // ln v, written as m 2^e with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh((m-1)/(m+1)).
  // (Bits fit an int after the shift by one: compilers have a vector conversion from int, not from unsigned.)
  const float scaled = static_cast<float>(static_cast<std::int32_t>(radius_bits >> 1)) + 0.75f;  // v 2^31
  std::int32_t bits;
  std::memcpy(&bits, &scaled, sizeof bits);
  const std::int32_t exponent = (bits - 0x3f3504f3) >> 23;
  bits -= exponent * (1 << 23);
  float m;
  std::memcpy(&m, &bits, sizeof m);
  const float t = (m - 1.0f) / (m + 1.0f);
  const float t2 = t * t;
  const float atanh = t * (1.0f + t2 * (0.33333333f + t2 * (0.20000190f + t2 * (0.14267662f + t2 * 0.11805995f))));
  const float minus_log = (31.0f - static_cast<float>(exponent)) * 0.69314718f - 2.0f * atanh;
  const float radius = std::sqrt(2.0f * (minus_log > 0.0f ? minus_log : 0.0f));
  // The angle: two bits for the quadrant, the rest an offset w in [-1/2, 1/2) of a quarter turn.
  const float w = static_cast<float>(static_cast<std::int32_t>(angle_bits << 2)) * (1.0f / 4294967296.0f);
  const float w2 = w * w;
  const float s = w * (1.57079632f + w2 * (-0.64596348f + w2 * (0.07968022f + w2 * -0.00460216f)));
  const float c = 1.0f + w2 * (-1.23370054f + w2 * (0.25366920f + w2 * (-0.02086007f + w2 * 0.00090363f)));
  const bool swap = (angle_bits & 0x40000000u) != 0;
  const float x = swap ? -s : c;
  const float y = swap ? c : s;
  const float sign = (angle_bits & 0x80000000u) != 0 ? -radius : radius;
  return {sign * x, sign * y};
}

/// One stream of random numbers: a pure function of (seed, purpose, step, index).
struct RandomStream {
  std::uint64_t seed = 0;             ///< of the training
  Purpose purpose = Purpose::kNoise;  ///< what the numbers are for
  std::uint32_t step = 0;             ///< training step of the noise, epoch of order and augmentation, ...
  std::uint64_t first = 0;            ///< first block: a slice of a buffer draws what the whole would have there

  /// Four independent words for block `index`.
  COVNOISE_HOST_DEVICE Philox4 words(std::uint64_t index) const {
    const std::uint64_t block = first + index;
    const Philox4 counter{{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), step,
                           static_cast<std::uint32_t>(purpose)}};
    return philox(counter, static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
  }

  /// Uniform integer in [0, bound) from word 0 of block `index`; bias below 2^-32 * bound.
  COVNOISE_HOST_DEVICE std::uint32_t below(std::uint32_t bound, std::uint64_t index) const {
    return static_cast<std::uint32_t>((std::uint64_t{words(index).x[0]} * bound) >> 32);
  }
};

}  // namespace covnoise
