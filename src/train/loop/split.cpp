#include "covnoise/train/internal/split.h"

#include "covnoise/core/error.h"
#include "covnoise/ops/device.h"

#include <fmt/format.h>

#include <algorithm>

namespace covnoise {
namespace {

Dataset part(const Dataset& all, std::int64_t first, std::int64_t count) {
  return {all.images.narrow(0, first, count), all.labels.narrow(0, first, count)};
}

}  // namespace

at::Device training_device(const Config& config) {
  const auto device = device_of(config.run.device);
  set_gpu_arithmetic({config.train.precision != "fp32", config.run.deterministic});
  return device;
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
  Split split{Loader(part(source.train, 0, count), options), Loader(part(source.test, 0, tests), plain), std::nullopt};
  if (config.data.holdout > 0) split.validation.emplace(part(source.train, count, config.data.holdout), plain);
  return split;
}

}  // namespace covnoise
