// Precompiled for the library, the program, the tests and the benchmarks. Narrower than torch/torch.h: reading the
// precompiled header back is a good part of compiling a small file.
#pragma once
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/autograd.h>
#include <torch/library.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>
