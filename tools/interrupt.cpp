#include "interrupt.h"

#include <csignal>

namespace covnoise {
namespace {

volatile std::sig_atomic_t g_signal = 0;

extern "C" void remember(int signal) { g_signal = signal; }

}  // namespace

void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int caught_signal() { return g_signal; }

}  // namespace covnoise
