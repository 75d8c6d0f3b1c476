#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>

namespace covnoise {

/// Waiting for other ranks, in slices so short that a signal or a lost rank ends it.
class Wait {
 public:
  /// `check` is called before every slice; what ends the waiting early, it throws.
  Wait(std::chrono::milliseconds timeout, std::function<void()> check)
      : timeout_(timeout), until_(Clock::now() + timeout), check_(std::move(check)) {}

  /// Milliseconds to wait before asking again, at most `most`; 0 if the timeout is over.
  int slice(int most = 100) const {
    check_();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until_ - Clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, most));
  }
  /// "600 s"
  std::string timeout_text() const { return fmt::format("{:g} s", static_cast<double>(timeout_.count()) / 1000); }

 private:
  using Clock = std::chrono::steady_clock;
  std::chrono::milliseconds timeout_;
  Clock::time_point until_;
  std::function<void()> check_;
};

}  // namespace covnoise
