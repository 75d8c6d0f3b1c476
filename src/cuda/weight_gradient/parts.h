#pragma once
#include <cmath>

namespace covnoise::cuda {

/// The number of parts, up to `most`, that finishes first: each part processes its share of `items` in order, and
/// parts * tiles blocks run in `slots` slots. Each part costs a little.
inline int choose_parts(long long items, int most, long long tiles, int slots) {
  int best = 1;
  double best_cost = 1e300;
  for (int parts = 1; parts <= most; ++parts) {
    if (parts > 1 && parts * tiles > 4LL * slots) break;
    const double waves = std::ceil(static_cast<double>(parts * tiles) / slots);
    const double cost = waves * (std::ceil(static_cast<double>(items) / parts) + 0.2);
    if (cost < best_cost * 0.995) best = parts, best_cost = cost;
  }
  return best;
}

}  // namespace covnoise::cuda
