#include <ATen/ATen.h>
#include <covnoise/ops/random.h>

#include <cstdio>

int main() {
  const auto normals = at::zeros({8});
  covnoise::fill_normal(normals, {});
  std::printf("%d normals\n", static_cast<int>(normals.ne(0).sum().item<std::int64_t>()));
}
