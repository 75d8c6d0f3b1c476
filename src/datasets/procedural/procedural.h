// What the embedded data sets share. Their bytes must not depend on the machine, so they use only operations that IEEE
// 754 rounds exactly (+ - * / sqrt), never libm's, and are compiled without contraction to fused multiply-adds.
#pragma once
#include "covnoise/data/dataset.h"
#include "covnoise/ops/philox.h"

#include <cstdint>
#include <string>
#include <vector>

namespace covnoise {

/// The sequence of random numbers of one example.
class Dice {
 public:
  Dice(const RandomStream& stream, std::uint64_t example) : stream_(stream), block_(example << 20) {}

  std::uint32_t bits() {
    if (used_ == 4) {
      words_ = stream_.words(block_++);
      used_ = 0;
    }
    return words_.x[used_++];
  }
  float uniform(float low, float high) { return low + (high - low) * uniform_open(bits()); }
  int integer(int low, int high) {  // both included
    return low + static_cast<int>((std::uint64_t{bits()} * static_cast<std::uint32_t>(high - low + 1)) >> 32);
  }
  bool chance(float probability) { return uniform_open(bits()) < probability; }
  /// Mean 0, variance 1, nearly normal: the sum of the four bytes of a word.
  float bell() {
    const std::uint32_t word = bits();
    const auto sum = (word & 255u) + ((word >> 8) & 255u) + ((word >> 16) & 255u) + (word >> 24);
    return (static_cast<float>(sum) - 510.0f) * (1.0f / 147.8f);  // 147.8 = sqrt(4 (256^2 - 1) / 12)
  }

 private:
  RandomStream stream_;
  std::uint64_t block_;
  Philox4 words_{};
  int used_ = 4;
};

/// x - floor(x), without a library call if the instruction set has no rounding; |x| < 2^31.
inline float fraction(float x) {
  const float part = x - static_cast<float>(static_cast<std::int32_t>(x));
  return part < 0.0f ? part + 1.0f : part;
}
inline float clamp_unit(float x) { return x < 0.0f ? 0.0f : (x > 1.0f ? 1.0f : x); }

/// sin(2 pi turns), to 2e-4: the sine's odd polynomial on a quarter of a turn.
inline float sine(float turns) {
  const float t = fraction(turns + 0.25f) - 0.5f;        // [-1/2, 1/2)
  const float x = 4.0f * (0.25f - (t < 0.0f ? -t : t));  // [-1, 1]: sin(pi x / 2)
  const float y = x * x;
  return x * (1.5706268f + y * (-0.6432292f + y * 0.0727102f));
}
inline float cosine(float turns) { return sine(turns + 0.25f); }

struct Point {
  float x = 0, y = 0;
};

/// A smooth displacement of the plane: one slow wave in x, one in y.
class Warp {
 public:
  /// `strength` and `wavelength` in the unit of the points.
  Warp(Dice& dice, float strength, float wavelength);
  Point operator()(Point p) const;

 private:
  float strength_[2], frequency_[2][2], phase_[2];
};

/// How one data set is drawn.
struct Procedure {
  std::string name;
  std::uint64_t seed;  // different for each data set
  std::int64_t channels, side, train, test;
  std::vector<std::string> classes;
  /// Draws one example of class `label`, [C, side, side] with values around [0, 1], in any thread.
  void (*draw)(int label, Dice& dice, float* pixels);
};

/// Example i of a split has class i mod 10 and is a pure function of (split, i).
DataSource make_procedural(const Procedure& procedure);

}  // namespace covnoise
