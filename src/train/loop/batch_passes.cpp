#include "train/loop/batch_passes.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace covnoise {
namespace {

void at_once(const std::function<void()>& call) { call(); }

}  // namespace

PassedBatch BatchPasses::finish() {
  PassedBatch result;
  result.statistics = pass_.finish();
  const auto number = [](const at::Tensor& value) { return value.to(at::kDouble); };
  const auto &diagonal = result.statistics.diagonal, &gradient = result.statistics.gradient;
  at::Tensor norm, trace;
  {
    std::optional<SideStream> side_stream;
    if (diagonal.defined()) side_stream.emplace(gradient.device(), [&] { trace = number(diagonal.sum()); });
    norm = number(gradient.norm());
  }
  if (!trace.defined()) trace = at::zeros_like(norm);
  result.numbers = at::stack({pass_.sums().loss, number(pass_.sums().correct), norm, trace});
  return result;
}

template <class Slice>
PassedBatch BatchPasses::pass(std::int64_t batch, const Slice& slice, const BeforeLast& before_last,
                              const AddHostCallback& add_host_callback) {
  for (std::int64_t first = 0; first < batch; first += micro_batch_) {
    const auto [images, labels] = slice(first, std::min(micro_batch_, batch - first));
    if (first + micro_batch_ >= batch) before_last(add_host_callback);
    pass_.add(images, labels);
  }
  return finish();
}

BatchPasses::Kind* BatchPasses::find(const Needs& needs, std::int64_t batch) {
  for (const auto& kind : kinds_) {
    if (kind->needs == needs && kind->images.size(0) == batch) return kind.get();
  }
  return nullptr;
}

const PassedBatch& BatchPasses::run(const Needs& needs, const Loader& loader, const at::Tensor& indices,
                                    std::int64_t epoch, const BeforeLast& before_last) {
  const bool captured = loader.device().is_cuda() && !needs.kronecker;  // whose normal numbers are the capture's own
  const std::int64_t batch = indices.size(0);
  if (!captured) {
    const auto load = [&](std::int64_t first, std::int64_t n) {
      const auto slice = indices.narrow(0, first, n);
      return std::pair(loader.images(slice, epoch), loader.labels(slice));
    };
    return last_ = pass(batch, load, before_last, at_once);
  }
  Kind* kind = find(needs, batch);
  const auto pass_kind = [&](const AddHostCallback& add_host_callback) {
    const auto read = [&](std::int64_t first, std::int64_t n) {
      return std::pair(kind->images.narrow(0, first, n), kind->labels.narrow(0, first, n));
    };
    return pass(batch, read, before_last, add_host_callback);
  };
  if (!kind) {
    kinds_.push_back(std::make_unique<Kind>());
    kind = kinds_.back().get();
    kind->needs = needs;
    kind->images = loader.images(indices, epoch);
    kind->labels = loader.labels(indices);
    return kind->result = pass_kind(at_once);
  }
  kind->images.copy_(loader.images(indices, epoch));
  kind->labels.copy_(loader.labels(indices));
  if (!kind->captured) {
    const auto other = std::find_if(kinds_.begin(), kinds_.end(), [](const auto& k) { return k->captured != nullptr; });
    kind->captured = std::make_unique<CudaGraphSequence>(
        [&](const AddHostCallback& add_host_callback) { kind->result = pass_kind(add_host_callback); },
        other != kinds_.end() ? (*other)->captured.get() : nullptr);
  }
  kind->captured->replay();
  return kind->result;
}

}  // namespace covnoise
