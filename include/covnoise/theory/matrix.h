#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace covnoise::theory {

/// A matrix as double [rows, columns] from a .safetensors file (its only tensor, or the one called "A") or a CSV file.
at::Tensor read_matrix(const std::filesystem::path& path);

/// Eigenvalues from "3,1,0.5", or `count` of them from "log:min:max", evenly spaced on a logarithmic scale.
std::vector<double> parse_spectrum(const std::string& text, std::int64_t count);

/// Standard normals as double, a pure function of (seed, number).
at::Tensor normals(at::IntArrayRef shape, std::uint64_t seed, std::uint32_t number);

/// A rotation drawn uniformly: double [d, d], orthogonal.
at::Tensor random_rotation(std::int64_t dimension, std::uint64_t seed);

/// Q diag(spectrum) Q^T with a random rotation Q.
at::Tensor rotated_diagonal(const std::vector<double>& spectrum, std::uint64_t seed);

/// The symmetric root of a symmetric positive semi-definite matrix [..., d, d]; eigenvalues below 0 count as 0.
at::Tensor symmetric_root(const at::Tensor& matrix);

/// The diagonal part of [..., d, d].
at::Tensor diagonal_part(const at::Tensor& matrix);

}  // namespace covnoise::theory
