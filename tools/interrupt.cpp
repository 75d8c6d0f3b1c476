#include "interrupt.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>

namespace covnoise {
namespace {

struct Caught {
  int signal;
  std::atomic<int> times{0};
  std::atomic<std::int64_t> last{0};  // in milliseconds
};
Caught g_caught[] = {{SIGINT}, {SIGTERM}, {SIGHUP}};
std::atomic<int> g_first{0};
std::atomic<bool> g_stop_now{false};
InterruptAnswers g_answers = {};

// What follows runs in a signal handler: only async-signal-safe functions.

std::int64_t milliseconds_now() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{1000} * now.tv_sec + now.tv_nsec / 1'000'000;
}

void answer(const char* line) {
  if (!line) return;
  const char* parts[] = {::isatty(STDERR_FILENO) ? "\r\033[K" : "", "covnoise: ", line, "\n"};
  for (const char* part : parts) [[maybe_unused]] const auto written = ::write(STDERR_FILENO, part, std::strlen(part));
}

void count(Caught& caught) {
  constexpr std::int64_t kTogether = 200;
  const std::int64_t now = milliseconds_now();
  if (caught.times > 0 && now - caught.last < kTogether) return;
  caught.last = now;
  const int times = ++caught.times;
  int none = 0;
  if (g_first.compare_exchange_strong(none, caught.signal)) answer(g_answers.first);
  if (times == 2 && !g_stop_now.exchange(true)) answer(g_answers.second);
  if (times < 3) return;
  std::signal(caught.signal, SIG_DFL);
  std::raise(caught.signal);
}

extern "C" void handle_interrupt(int signal) {
  const int error = errno;
  for (auto& caught : g_caught) {
    if (caught.signal == signal) count(caught);
  }
  errno = error;
}

// Whether nohup started this program. Asked before the shared libraries begin, because one of LibTorch's may have a
// handler of its own for SIGHUP (UCX, in Debian 13).
bool g_ignores_hangups = false;

void see_hangups() {
  struct sigaction before = {};
  sigaction(SIGHUP, nullptr, &before);
  g_ignores_hangups = before.sa_handler == SIG_IGN;
}

__attribute__((section(".preinit_array"), used)) void (*const g_before_libraries)() = see_hangups;

}  // namespace

void catch_interrupts(const InterruptAnswers& answers) {
  g_answers = answers;
  struct sigaction action = {};
  action.sa_handler = handle_interrupt;
  for (const auto& caught : g_caught) sigaddset(&action.sa_mask, caught.signal);
  for (const auto& caught : g_caught) sigaction(caught.signal, &action, nullptr);
  if (g_ignores_hangups) std::signal(SIGHUP, SIG_IGN);
}

int caught_signal() { return g_first; }
bool stop_now() { return g_stop_now; }

}  // namespace covnoise
