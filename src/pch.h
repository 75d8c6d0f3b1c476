// Precompiled for the library, the program, the tests and the benchmarks: LibTorch's headers take over ten seconds.
#pragma once
#include <torch/torch.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>
