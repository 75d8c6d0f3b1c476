#include "covnoise/theory/matrix.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/csv.h"
#include "covnoise/core/safetensors.h"
#include "covnoise/ops/random.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <sstream>

namespace covnoise::theory {
namespace {

at::Tensor only_matrix(const std::filesystem::path& path) {
  const TensorFile file = read_safetensors(path);
  for (const auto& [name, tensor] : file.tensors) {
    if (name != "A" && file.tensors.size() > 1) continue;
    if (tensor.dim() != 2) break;
    return tensor.to(at::kDouble);
  }
  throw Error(fmt::format("{} has no matrix: it needs a single two-dimensional tensor, or one named A", path.string()));
}

double parse_positive(const std::string& word, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  if (end == word.c_str() || *end != '\0' || !(value > 0) || !std::isfinite(value)) {
    throw Error(fmt::format("spectrum '{}': '{}' is not a positive number; give a list like 3,1,0.5 or log:0.01:1",
                            text, word));
  }
  return value;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, separator);) words.push_back(word);
  return words;
}

}  // namespace

at::Tensor read_matrix(const std::filesystem::path& path) {
  return path.extension() == ".safetensors" ? only_matrix(path) : read_csv_matrix(path);
}

std::vector<double> parse_spectrum(const std::string& text, std::int64_t count) {
  std::vector<double> values;
  if (text.rfind("log:", 0) != 0) {
    for (const auto& word : split(text, ',')) values.push_back(parse_positive(word, text));
    if (values.empty()) throw Error("an empty spectrum; give a list like 3,1,0.5 or log:0.01:1");
    return values;
  }
  const auto words = split(text.substr(4), ':');
  if (words.size() != 2) throw Error(fmt::format("spectrum '{}': write log:min:max, e.g. log:0.01:1", text));
  const double first = parse_positive(words[0], text), last = parse_positive(words[1], text);
  for (std::int64_t i = 0; i < count; ++i) {
    const double t = count > 1 ? static_cast<double>(i) / static_cast<double>(count - 1) : 1;
    values.push_back(first * std::pow(last / first, t));
  }
  return values;
}

at::Tensor normals(at::IntArrayRef shape, std::uint64_t seed, std::uint32_t number) {
  at::Tensor values = at::empty(shape, at::kDouble);
  fill_normal(values, {seed, Purpose::kData, number});
  return values;
}

at::Tensor random_rotation(std::int64_t dimension, std::uint64_t seed) {
  const auto [q, r] = at::linalg_qr(normals({dimension, dimension}, seed, 0));
  return q * at::sign(at::diagonal(r));  // with these signs the distribution is uniform
}

at::Tensor rotated_diagonal(const std::vector<double>& spectrum, std::uint64_t seed) {
  const auto d = static_cast<std::int64_t>(spectrum.size());
  const at::Tensor rotation = random_rotation(d, seed);
  const at::Tensor matrix = at::matmul(rotation * at::tensor(spectrum, at::kDouble), rotation.t());
  return (matrix + matrix.t()) / 2;
}

at::Tensor symmetric_root(const at::Tensor& matrix) {
  const auto [values, vectors] = at::linalg_eigh(matrix);
  return at::matmul(vectors * at::sqrt(values.clamp_min(0)).unsqueeze(-2), vectors.transpose(-2, -1));
}

at::Tensor diagonal_part(const at::Tensor& matrix) { return at::diag_embed(at::diagonal(matrix, 0, -2, -1)); }

}  // namespace covnoise::theory
