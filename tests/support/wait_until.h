#pragma once
#include <chrono>
#include <functional>
#include <thread>

namespace covnoise::testing {

/// Asks again and again; false if it does not become true in time.
inline bool wait_until(const std::function<bool()>& done, std::chrono::seconds most) {
  const auto end = std::chrono::steady_clock::now() + most;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace covnoise::testing
