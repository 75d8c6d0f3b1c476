#pragma once
#include "covnoise/data/dataset.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

namespace covnoise {

/// Reads images in worker threads. What is taken does not depend on what was asked for beforehand, nor on the threads:
/// prefetch only makes a later take faster. For one caller at a time.
class ImageStream {
 public:
  ImageStream(std::shared_ptr<const ImageReader> reader, int threads);
  ~ImageStream();
  ImageStream(const ImageStream&) = delete;
  ImageStream& operator=(const ImageStream&) = delete;

  /// Starts to read these (int64 on the CPU). What an earlier call asked for and nobody took is dropped.
  void prefetch(const at::Tensor& indices);
  /// uint8 [M, C, H, W]; waits for the workers. An error of the reader is thrown here.
  at::Tensor take(const at::Tensor& indices);

 private:
  struct Slot {
    at::Tensor pixels;  // defined once they are read
    std::exception_ptr error;
    bool done() const { return pixels.defined() || error; }
  };
  void work();
  void request(std::int64_t index, bool urgent);  // mutex_ is held

  std::shared_ptr<const ImageReader> reader_;
  std::vector<std::int64_t> sizes_;
  std::mutex mutex_;
  std::condition_variable asked_, finished_;
  std::map<std::int64_t, Slot> slots_;  // by index: asked for, or read and not yet taken
  std::deque<std::int64_t> waiting_;    // asked for, not yet begun
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace covnoise
