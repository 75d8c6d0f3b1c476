#include "covnoise/train/internal/split.h"

#include "covnoise/core/error.h"
#include "covnoise/data/internal/permutation.h"
#include "covnoise/ops/device.h"
#include "covnoise/ops/philox.h"

#include <fmt/format.h>

#include <algorithm>

namespace covnoise {
namespace {

/// `count` examples from `first` on; if they are sorted by class, of a random order.
Dataset part(const Dataset& all, const at::Tensor& drawn, std::int64_t first, std::int64_t count) {
  if (!drawn.defined()) return all.slice(first, count);
  return all.select(std::get<0>(drawn.narrow(0, first, count).sort()));
}

/// A permutation of the examples, if a part of them has to be drawn.
at::Tensor drawn_order(const DataSource& source, std::int64_t examples, std::int64_t used, Purpose purpose,
                       std::uint64_t seed) {
  return source.sorted_by_class && used < examples ? permutation({seed, purpose, 0}, examples) : at::Tensor();
}

}  // namespace

at::Device training_device(const Config& config) {
  const auto device = device_of(config.run.device);
  set_gpu_arithmetic({config.train.precision != "fp32", config.run.deterministic});
  return device;
}

DataRequest data_request(const Config& config) {
  DataRequest request(config.data.name);
  request.resize = config.data.resize;
  request.crop = config.data.crop;
  request.memory = config.data.memory;
  return request;
}

Split make_split(const DataSource& source, const Config& config) {
  const std::int64_t available = source.train.labels.size(0);
  const std::int64_t limit = config.data.train_limit > 0 ? config.data.train_limit : available;
  if (limit > available) {
    throw Error(fmt::format("data.train_limit = {} is more than the {} training examples of {}", limit, available,
                            source.name));
  }
  const std::int64_t count = limit - config.data.holdout;
  if (count < 1) {
    throw Error(fmt::format("data.holdout = {} leaves none of the {} training examples of {}", config.data.holdout,
                            limit, source.name));
  }
  LoaderOptions options;
  options.mean = source.mean;
  options.std = source.std;
  options.seed = config.seed;
  const auto device = training_device(config);
  options.device = device;
  options.dtype = config.train.precision == "fp64"                       ? at::kDouble
                  : config.train.precision == "bf16" && device.is_cuda() ? at::kBFloat16
                                                                         : at::kFloat;
  options.augment = config.data.augment == "on" || (config.data.augment == "auto" && source.augment);
  LoaderOptions plain = options;
  plain.augment = false;
  const std::int64_t tests = config.data.test_limit > 0 ? std::min(config.data.test_limit, source.test.labels.size(0))
                                                        : source.test.labels.size(0);
  const auto of_train = drawn_order(source, available, count, nth(Purpose::kOrder, 1), config.seed);
  const auto of_test = drawn_order(source, source.test.labels.size(0), tests, nth(Purpose::kOrder, 2), config.seed);
  Split split{Loader(part(source.train, of_train, 0, count), options),
              Loader(part(source.test, of_test, 0, tests), plain), std::nullopt};
  if (config.data.holdout > 0)
    split.validation.emplace(part(source.train, of_train, count, config.data.holdout), plain);
  return split;
}

}  // namespace covnoise
