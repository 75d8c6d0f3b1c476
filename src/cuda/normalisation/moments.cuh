#pragma once

namespace covnoise::cuda {

/// Number, mean and sum of squared deviations of some values; joined without cancellation (Chan, Golub, LeVeque 1979).
struct Moments {
  float count, mean, m2;

  __device__ void join(const Moments& other) {
    const float total = count + other.count;
    if (total == 0) return;
    const float delta = other.mean - mean, share = other.count / total;
    mean = fmaf(delta, share, mean);
    m2 += other.m2 + delta * delta * count * share;
    count = total;
  }
};

/// Sums of values around a shift: accurate however far the values are from zero, if the shift is one of them.
__device__ inline Moments moments_of(float count, float shift, float sum, float squares) {
  if (count == 0) return {0, 0, 0};
  const float mean = sum / count;
  return {count, shift + mean, fmaxf(squares - sum * mean, 0.0f)};
}

}  // namespace covnoise::cuda
