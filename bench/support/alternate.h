#pragma once
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace covnoise::bench {

template <class Work>
double seconds(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

/// Runs `ours` and `theirs` in turn, so that whatever else loads the machine loads both, and reports the medians in
/// milliseconds and `ratio` = ours / theirs. The benchmark's own time is that of `ours` (UseManualTime). Returns the
/// median of `ours` in seconds.
template <class Ours, class Theirs>
double alternate(benchmark::State& state, Ours&& ours, Theirs&& theirs) {
  std::vector<double> our_times, their_times;
  ours();
  theirs();
  for (auto _ : state) {
    our_times.push_back(seconds(ours));
    their_times.push_back(seconds(theirs));
    state.SetIterationTime(our_times.back());
  }
  const double mine = median(our_times), other = median(their_times);
  state.counters["ours_ms"] = 1e3 * mine;
  state.counters["theirs_ms"] = 1e3 * other;
  state.counters["ratio"] = mine / other;
  return mine;
}

}  // namespace covnoise::bench
