#pragma once
#include "covnoise/datasets/catalog.h"

#include <chrono>
#include <string>

namespace covnoise {

/// Shows a download: a progress bar on a terminal, otherwise a line at the start and after each tenth.
class TransferDisplay {
 public:
  TransferDisplay();
  void show(const FetchEvent& event);

 private:
  using Clock = std::chrono::steady_clock;

  void show_bytes(const FetchEvent& event);
  void draw_bar(const FetchEvent& event);
  void end_bar();

  bool terminal_;
  bool bar_open_ = false;
  std::uint64_t begin_ = 0;   // bytes of an earlier download that this one resumes
  std::uint64_t tenths_ = 0;  // the last one printed
  Clock::time_point started_{}, drawn_{};
};

}  // namespace covnoise
