#pragma once
#include "covnoise/core/memory.h"
#include "covnoise/core/threads.h"

#include <benchmark/benchmark.h>

namespace covnoise::bench {

/// The main function of a Google Benchmark program: all processors, freed memory is kept, unknown flags are refused.
/// `register_more` adds benchmarks that are not registered by macros.
template <class Register>
int run_benchmarks(int argc, char** argv, Register register_more) {
  keep_freed_memory();
  set_threads(0);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  register_more();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

inline int run_benchmarks(int argc, char** argv) {
  return run_benchmarks(argc, argv, [] {});
}

}  // namespace covnoise::bench
