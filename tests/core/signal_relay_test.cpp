#include "covnoise/core/internal/signal_relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <vector>

namespace covnoise {
namespace {

TEST(SignalRelay, PassesOnTheFirstSignalAndTheSecond) {
  int caught = 0;
  bool stop_now = false;
  std::vector<int> sent;
  SignalRelay relay([&] { return caught; }, [&] { return stop_now; });
  const auto pass_on = [&] { relay.pass_on([&](int signal) { sent.push_back(signal); }); };
  pass_on();
  EXPECT_TRUE(sent.empty());
  caught = SIGHUP;
  for (int i = 0; i < 3; ++i) pass_on();
  EXPECT_THAT(sent, ::testing::ElementsAre(SIGHUP));
  stop_now = true;
  while (sent.size() < 2) pass_on();
  for (int i = 0; i < 3; ++i) pass_on();
  EXPECT_THAT(sent, ::testing::ElementsAre(SIGHUP, SIGHUP));
  EXPECT_EQ(relay.signal(), SIGHUP);
}

}  // namespace
}  // namespace covnoise
