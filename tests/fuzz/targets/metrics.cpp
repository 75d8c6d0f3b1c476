#include "covnoise/train/internal/metrics.h"

#include "fuzz.h"

FUZZ_TARGET(metrics, 2048) {
  static covnoise::fuzz::MemoryFile file("input/metrics.jsonl");
  file.write(input);
  covnoise::read_metrics(file.path().parent_path());
}
