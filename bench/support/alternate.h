#pragma once
#include "support/numbers.h"

#include <benchmark/benchmark.h>

#include <chrono>
#include <ctime>
#include <vector>

namespace covnoise::bench {

/// Seconds that a piece of work took in each run.
class Timings {
 public:
  template <class Work>
  double add(Work&& work) {
    const auto start = std::chrono::steady_clock::now();
    const auto processor_start = std::clock();
    work();
    processor_.push_back(static_cast<double>(std::clock() - processor_start) / CLOCKS_PER_SEC);
    wall_.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return wall_.back();
  }
  double wall() const { return median(wall_); }
  double processor() const { return median(processor_); }  ///< of all threads together

 private:
  std::vector<double> wall_, processor_;
};

/// Runs `ours` and `theirs` in turn, so that other load on the machine affects both, and reports the medians in
/// milliseconds and `ratio` = ours / theirs; `cpu_ratio` is the same by processor time, which other programs disturb
/// least (with one thread: `taskset -c 0`). The benchmark's own time is that of `ours` (UseManualTime). Returns the
/// median of `ours` in seconds.
template <class Ours, class Theirs>
double alternate(benchmark::State& state, Ours&& ours, Theirs&& theirs) {
  Timings mine, others;
  ours();
  theirs();
  for (auto _ : state) {
    state.SetIterationTime(mine.add(ours));
    others.add(theirs);
  }
  state.counters["ours_ms"] = 1e3 * mine.wall();
  state.counters["theirs_ms"] = 1e3 * others.wall();
  state.counters["ratio"] = mine.wall() / others.wall();
  state.counters["cpu_ratio"] = mine.processor() / others.processor();
  return mine.wall();
}

}  // namespace covnoise::bench
