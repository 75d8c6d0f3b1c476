#include "covnoise/core/threads.h"
#include "covnoise/ops/device.h"

#include <gtest/gtest.h>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  covnoise::set_threads(0);
  covnoise::set_gpu_arithmetic({});
  return RUN_ALL_TESTS();
}
