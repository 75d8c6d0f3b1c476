#include "covnoise/core/internal/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace covnoise {
namespace {

int terminal_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string clock_text(double seconds) {
  const auto whole = std::lround(std::clamp(seconds, 0.0, 359999.0));
  const auto hours = whole / 3600, minutes = whole / 60 % 60, rest = whole % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, rest) : fmt::format("{}:{:02}", minutes, rest);
}

}  // namespace

bool is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

std::string progress_line(const std::string& label, std::int64_t done, std::int64_t total, const std::string& rate,
                          double seconds_left, int width) {
  const double part = total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0) : 1.0;
  std::string tail = fmt::format(" {:3.0f} %", 100 * part);
  if (!rate.empty()) tail += "  " + rate;
  if (seconds_left >= 0) tail += "  " + clock_text(seconds_left) + " left";
  std::string line = label;
  const int cells = std::min(40, width - static_cast<int>(label.size() + tail.size()) - 4);
  if (cells >= 4) {  // otherwise the terminal is too narrow for a bar
    const int full = static_cast<int>(part * cells);
    line += fmt::format("  [{}{}{}]", std::string(full, '='), full < cells ? ">" : "",
                        std::string(full < cells ? cells - full - 1 : 0, ' '));
  }
  return (line + tail).substr(0, static_cast<std::size_t>(std::max(width, 0)));
}

ProgressBar::ProgressBar(std::int64_t total, std::string label, bool enabled)
    : total_(total), label_(std::move(label)), enabled_(enabled), start_(Clock::now()) {}

ProgressBar::~ProgressBar() { clear(); }

void ProgressBar::update(std::int64_t done, const std::string& rate) {
  if (!enabled_) return;
  if (first_ < 0) first_ = done;  // what a resumed run or download already had took no time now
  done_ = done;
  rate_ = rate;
  if (drawn_ && Clock::now() - last_ < std::chrono::milliseconds(100)) return;
  draw();
}

void ProgressBar::clear() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

void ProgressBar::finish() {
  if (!enabled_) return;
  draw();
  std::fputc('\n', stderr);
  drawn_ = false;
}

void ProgressBar::draw() {
  last_ = Clock::now();
  const double elapsed = std::chrono::duration<double>(last_ - start_).count();
  const auto gained = static_cast<double>(done_ - first_);
  const double left = gained > 0 ? elapsed * static_cast<double>(total_ - done_) / gained : -1;
  const auto line = progress_line(label_, done_, total_, rate_, left, terminal_width() - 1);
  fmt::print(stderr, "\r{}\033[K", line);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace covnoise
