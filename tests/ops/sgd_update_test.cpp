#include "covnoise/ops/sgd_update.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/device.h"

namespace covnoise {
namespace {

/// The formula in single operations, for every combination of its terms.
TEST(SgdUpdate, IsItsFormula) {
  at::manual_seed(3);
  for (const auto dtype : {at::kFloat, at::kDouble})
    for (const bool noisy : {false, true})
      for (const bool nesterov : {false, true})
        for (const bool in_gradient : {false, true})
          for (const double mu : {0.0, 0.9}) {
            const auto draw = [&] { return testing::on_device(at::randn({70000}, at::kDouble).to(dtype)); };
            at::Tensor theta = draw(), b = draw(), g = draw(), n = noisy ? draw() : at::Tensor();
            const SgdUpdate update{0.3, mu, 0.01, testing::on_device(at::full({}, 0.5, dtype)), nesterov, in_gradient};
            at::Tensor d = 0.5 * g + 0.01 * theta, buffer = b;
            if (noisy && in_gradient) d = d + 0.5 * n;
            if (mu > 0) buffer = mu * b + d;
            at::Tensor direction = mu == 0 ? d : nesterov ? d + mu * buffer : buffer;
            if (noisy && !in_gradient) direction = direction + 0.5 * n;
            const at::Tensor expected = theta - 0.3 * direction;
            sgd_update(theta, g, b, {n, {}, 1, {}}, update);
            const double tolerance = dtype == at::kDouble ? 1e-12 : 1e-5;
            EXPECT_TRUE(theta.allclose(expected, tolerance, tolerance));
            EXPECT_TRUE(b.allclose(buffer, tolerance, tolerance));
          }
}

/// Noise given by its variance equals the same noise given by its values.
TEST(SgdUpdate, DrawsWhatTheNoisesTensorHolds) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    at::manual_seed(5);
    const auto draw = [&] { return testing::on_device(at::randn({70000}, at::kDouble).to(dtype)); };
    const at::Tensor start = draw(), g = draw(), variance = draw().abs();
    const StepNoise drawn{{}, variance, 0.3, {12, Purpose::kNoise, 7}};
    const SgdUpdate update{0.3, 0.9, 0.01, testing::on_device(at::full({}, 0.5, dtype)), false, true};
    at::Tensor a = start.clone(), b = start.clone(), momentum_a = at::zeros_like(a), momentum_b = at::zeros_like(a);
    sgd_update(a, g, momentum_a, drawn, update);
    sgd_update(b, g, momentum_b, {drawn.tensor(), {}, 1, {}}, update);
    EXPECT_TRUE(a.allclose(b, 1e-6, 1e-6));
    EXPECT_FALSE(a.allclose(start - 0.3 * (0.5 * g + 0.01 * start), 1e-3, 1e-3));
  }
}

}  // namespace
}  // namespace covnoise
