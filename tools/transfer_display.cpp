#include "transfer_display.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace covnoise {
namespace {

constexpr int kBarWidth = 30;
constexpr auto kRedraw = std::chrono::milliseconds(100);

double megabytes(std::uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

}  // namespace

TransferDisplay::TransferDisplay() : terminal_(::isatty(STDOUT_FILENO) != 0) {}

void TransferDisplay::show(const FetchEvent& event) {
  using Kind = FetchEvent::Kind;
  if (event.kind == Kind::kBytes) return show_bytes(event);
  end_bar();
  switch (event.kind) {
    case Kind::kPresent:
      fmt::print("{}: already there, checksum correct\n", event.file);
      break;
    case Kind::kFailed:
      fmt::print("{}; trying the next site\n", event.text);
      break;
    case Kind::kInstalled:
      fmt::print("{}: checksum correct, installed\n", event.file);
      break;
    case Kind::kStarted:
      begin_ = event.done;
      tenths_ = 0;
      started_ = Clock::now();
      fmt::print("{}{}\n", event.text, event.done > 0 ? fmt::format(" (resuming at byte {})", event.done) : "");
      break;
    case Kind::kBytes:
      break;
  }
  std::fflush(stdout);
}

void TransferDisplay::show_bytes(const FetchEvent& event) {
  const bool end = event.done == event.total;
  if (terminal_) {
    if (bar_open_ && !end && Clock::now() - drawn_ < kRedraw) return;
    return draw_bar(event);
  }
  const std::uint64_t tenths = event.total > 0 ? event.done * 10 / event.total : 0;
  if (tenths <= tenths_) return;
  tenths_ = tenths;
  fmt::print("{}: {:.1f} of {:.1f} MB\n", event.file, megabytes(event.done), megabytes(event.total));
  std::fflush(stdout);
}

void TransferDisplay::draw_bar(const FetchEvent& event) {
  drawn_ = Clock::now();
  const double seconds = std::chrono::duration<double>(drawn_ - started_).count();
  const std::uint64_t came = event.done > begin_ ? event.done - begin_ : 0;
  const double speed = seconds > 0 ? megabytes(came) / seconds : 0;
  const int filled = event.total > 0 ? static_cast<int>(event.done * kBarWidth / event.total) : 0;
  fmt::print("\r{} [{:<{}}] {:.1f}", event.file, std::string(static_cast<std::size_t>(filled), '#'), kBarWidth,
             megabytes(event.done));
  if (event.total > 0) fmt::print(" of {:.1f}", megabytes(event.total));
  fmt::print(" MB, {:.1f} MB/s\x1b[K", speed);
  std::fflush(stdout);
  bar_open_ = true;
}

void TransferDisplay::end_bar() {
  if (bar_open_) fmt::print("\n");
  bar_open_ = false;
}

}  // namespace covnoise
