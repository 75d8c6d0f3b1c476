#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace covnoise {

/// Whether standard error is a terminal.
bool is_terminal();

/// One line on standard error, redrawn at most ten times a second: label, bar, percentage, a rate text, time left.
/// If it is not enabled it prints nothing, and callers print plain lines instead.
class ProgressBar {
 public:
  ProgressBar(std::int64_t total, std::string label, bool enabled = is_terminal());
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  bool enabled() const { return enabled_; }
  void update(std::int64_t done, const std::string& rate = "");
  void clear();   ///< empties the line, so that something else can be printed; the next update draws again
  void finish();  ///< draws the last state and ends the line

 private:
  using Clock = std::chrono::steady_clock;
  void draw();

  std::int64_t total_, done_ = 0, first_ = -1;
  std::string label_, rate_;
  bool enabled_, drawn_ = false;
  Clock::time_point start_, last_;
};

/// The line itself, `width` columns at most: "epoch 3  [=====>    ]  52 %  1830 images/s  0:07 left".
std::string progress_line(const std::string& label, std::int64_t done, std::int64_t total, const std::string& rate,
                          double seconds_left, int width);

}  // namespace covnoise
