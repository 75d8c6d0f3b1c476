#pragma once

namespace covnoise {

/// Lines for the user, written as soon as a signal comes; null: none.
struct InterruptAnswers {
  const char* first;   ///< to the first signal
  const char* second;  ///< to the second one of the same kind
};

/// Catches SIGINT, SIGTERM and SIGHUP (unless nohup has it ignored). The same signal again within 0.2 s counts as one:
/// some programs signal a process and its group. The third one ends the process immediately.
void catch_interrupts(const InterruptAnswers& answers);

/// The first signal caught, or 0.
int caught_signal();
/// Whether a signal was caught a second time.
bool stop_now();

}  // namespace covnoise
