#include "covnoise/core/threads.h"

#include <gtest/gtest.h>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  covnoise::set_threads(0);
  return RUN_ALL_TESTS();
}
