#pragma once
#include "covnoise/core/error.h"

#include <cstdint>
#include <string>

namespace covnoise {

constexpr int kDivergedExit = 3;  ///< exit code of the Error that ends a training which diverged

/// Ends a training which diverged.
class Diverged : public Error {
 public:
  Diverged(const std::string& message, std::int64_t step) : Error(message, kDivergedExit), step_(step) {}
  std::int64_t step() const { return step_; }

 private:
  std::int64_t step_;
};

}  // namespace covnoise
