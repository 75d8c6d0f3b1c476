#include "ops/moment_totals.h"

#include "ops/portable/portable.h"

#include <vector>

namespace covnoise {

at::Tensor portable::moment_totals(at::TensorList moments, at::ArrayRef<double> weights) {
  check_moment_totals(moments, weights);
  std::vector<at::Tensor> squares, norms;
  for (const auto& m : moments) {
    squares.push_back(m.select(0, 1).sum(at::kDouble));
    norms.push_back(at::linalg_vector_norm(m.select(0, 0), 2, at::OptionalIntArrayRef(), false, at::kDouble));
  }
  const auto of_squares = at::stack(squares).sum(), of_sums = at::stack(norms).square().sum();
  std::vector<at::Tensor> result;
  for (std::size_t i = 0; i < weights.size(); i += 2)
    result.push_back(of_squares * weights[i] + of_sums * weights[i + 1]);
  return at::stack(result);
}

}  // namespace covnoise
