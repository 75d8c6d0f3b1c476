#include "covnoise/core/threads.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace covnoise {
namespace {

TEST(Threads, AreNoMoreThanTheEnvironmentAllows) {
  const char* before = std::getenv("OMP_NUM_THREADS");
  const std::string kept = before ? before : "";
  setenv("OMP_NUM_THREADS", "1", 1);
  EXPECT_EQ(available_processors(), 1);
  setenv("OMP_NUM_THREADS", "100000", 1);
  EXPECT_LT(available_processors(), 100000);
  setenv("OMP_NUM_THREADS", "many", 1);
  EXPECT_GE(available_processors(), 1);
  kept.empty() ? unsetenv("OMP_NUM_THREADS") : setenv("OMP_NUM_THREADS", kept.c_str(), 1);
}

}  // namespace
}  // namespace covnoise
