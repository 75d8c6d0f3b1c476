#include "data/image_stream.h"

#include <ATen/Functions.h>

#include <cstring>
#include <set>

namespace covnoise {

ImageStream::ImageStream(std::shared_ptr<const ImageReader> reader, int threads)
    : reader_(std::move(reader)), sizes_(reader_->sizes()) {
  for (int i = 0; i < threads; ++i) workers_.emplace_back([this] { work(); });
}

ImageStream::~ImageStream() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  asked_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ImageStream::request(std::int64_t index, bool urgent) {
  if (!slots_.emplace(index, Slot{}).second) return;
  if (urgent) {
    waiting_.push_front(index);
  } else {
    waiting_.push_back(index);
  }
}

void ImageStream::prefetch(const at::Tensor& indices) {
  const auto* first = indices.data_ptr<std::int64_t>();
  const std::set<std::int64_t> wanted(first, first + indices.numel());
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.clear();
    for (auto slot = slots_.begin(); slot != slots_.end();)
      slot = wanted.count(slot->first) > 0 && slot->second.done() ? std::next(slot) : slots_.erase(slot);
    for (const std::int64_t index : wanted) request(index, /*urgent=*/false);
  }
  asked_.notify_all();
}

at::Tensor ImageStream::take(const at::Tensor& indices) {
  const auto* first = indices.data_ptr<std::int64_t>();
  at::Tensor out = at::empty({indices.numel(), sizes_[1], sizes_[2], sizes_[3]}, at::kByte);
  std::unique_lock<std::mutex> lock(mutex_);
  for (std::int64_t i = indices.numel() - 1; i >= 0; --i) request(first[i], /*urgent=*/true);
  asked_.notify_all();
  for (std::int64_t i = 0; i < indices.numel(); ++i) {
    finished_.wait(lock, [&] { return slots_.at(first[i]).done(); });
    const Slot& slot = slots_.at(first[i]);
    if (slot.error) std::rethrow_exception(slot.error);
    std::memcpy(out[i].data_ptr(), slot.pixels.data_ptr(), slot.pixels.nbytes());
  }
  for (std::int64_t i = 0; i < indices.numel(); ++i) slots_.erase(first[i]);
  return out;
}

void ImageStream::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    asked_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    const std::int64_t index = waiting_.front();
    waiting_.pop_front();
    lock.unlock();
    Slot read;
    try {
      read.pixels = at::empty({sizes_[1], sizes_[2], sizes_[3]}, at::kByte);
      reader_->read(index, read.pixels.data_ptr<std::uint8_t>());
    } catch (...) {
      read = {{}, std::current_exception()};
    }
    lock.lock();
    const auto slot = slots_.find(index);
    if (slot != slots_.end()) slot->second = std::move(read);  // otherwise it was dropped in the meantime
    finished_.notify_all();
  }
}

}  // namespace covnoise
