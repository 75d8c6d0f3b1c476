#pragma once
#include "covnoise/ops/device.h"

#include <ATen/core/Tensor.h>

#include <cstdlib>
#include <string>

namespace covnoise::testing {

/// Where the tests of networks and their operators run: $COVNOISE_TEST_DEVICE, which `script/gpu test` sets to cuda.
inline std::string device_name() {
  const char* name = std::getenv("COVNOISE_TEST_DEVICE");
  return name ? name : "cpu";
}

inline at::Device device() {
  static const at::Device device = device_of(device_name());
  return device;
}

inline at::Tensor on_device(const at::Tensor& tensor) { return tensor.to(device()); }

}  // namespace covnoise::testing
