#pragma once
#include <chrono>
#include <functional>

namespace covnoise {

/// Passes the user's signals on to child processes, which do not get them from the terminal: the first one, which asks
/// them to stop, and the second one, which asks them to stop now.
class SignalRelay {
 public:
  SignalRelay(std::function<int()> caught_signal, std::function<bool()> stop_now)
      : caught_signal_(std::move(caught_signal)), stop_now_(std::move(stop_now)) {}

  /// Calls `send` with each signal once; to be called again and again.
  template <class Send>
  void pass_on(const Send& send) {
    if (passed_ == 2 || (signal_ == 0 && (signal_ = caught_signal_()) == 0)) return;
    if (passed_ == 1 && (!stop_now_() || Clock::now() < next_)) return;
    send(signal_);
    ++passed_;
    next_ = Clock::now() + std::chrono::milliseconds(500);  // sooner, a child would take two signals for one
  }
  /// The signal that was passed on; 0: none.
  int signal() const { return signal_; }

 private:
  using Clock = std::chrono::steady_clock;
  std::function<int()> caught_signal_;
  std::function<bool()> stop_now_;
  int signal_ = 0, passed_ = 0;
  Clock::time_point next_;
};

}  // namespace covnoise
