#include "train/loop/initial_weights.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/digest.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/core/safetensors.h"
#include "covnoise/train/trainer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

namespace covnoise {
namespace {

TensorFile read_initial_weights(const TrainConfig& train) {
  const std::string bytes = read_file(train.init), sha256 = sha256_hex(bytes);
  require(sha256 == train.init_sha256,
          fmt::format("{} has the SHA-256 {}, but train.init_sha256 is {}: it is not the file the run was started with",
                      train.init, sha256, train.init_sha256));
  return decode_safetensors(bytes, train.init);
}

/// PyTorch's batch normalisation counts its batches; nothing here does.
bool is_batch_counter(const std::string& name) {
  const std::string counter = "num_batches_tracked";
  return name.size() >= counter.size() && name.compare(name.size() - counter.size(), counter.size(), counter) == 0;
}

bool keeps_every_bit(at::ScalarType from, at::ScalarType to) {
  const bool half = from == at::kHalf || from == at::kBFloat16;
  return from == to || (to == at::kFloat && half) || (to == at::kDouble && (half || from == at::kFloat));
}

std::string listed(const char* what, const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 8;
  if (names.empty()) return "";
  const std::vector<std::string> first(names.begin(), names.begin() + std::min(kMost, names.size()));
  return fmt::format("; {}: {}{}", what, fmt::join(first, ", "),
                     names.size() > kMost ? fmt::format(" and {} more", names.size() - kMost) : "");
}

}  // namespace

std::string load_initial_weights(torch::nn::Module& model, const TrainConfig& train) {
  std::map<std::string, at::Tensor> stored;
  for (const auto& [name, tensor] : read_initial_weights(train).tensors)
    if (!is_batch_counter(name)) stored.emplace(name, tensor);
  const auto slots = model_tensors(model);
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  std::vector<std::string> missing, other_shape, unused;
  for (const auto& [name, slot] : slots) {
    const auto found = stored.find(name);
    if (found == stored.end()) {
      missing.push_back(name);
      continue;
    }
    const at::Tensor tensor = found->second;
    stored.erase(found);
    if (tensor.sizes() != slot.sizes()) {
      other_shape.push_back(
          fmt::format("{} [{}] instead of [{}]", name, fmt::join(tensor.sizes(), ", "), fmt::join(slot.sizes(), ", ")));
      continue;
    }
    require(keeps_every_bit(tensor.scalar_type(), slot.scalar_type()),
            fmt::format("{}: {} has elements of type {}, the network of type {}: convert the file first", train.init,
                        name, c10::toString(tensor.scalar_type()), c10::toString(slot.scalar_type())));
    copies.emplace_back(slot, tensor);
  }
  for (const auto& item : stored) unused.push_back(item.first);
  const std::string differences =
      listed("missing", missing) + listed("of another shape", other_shape) + listed("not in the network", unused);
  require(differences.empty() || train.init_partial,
          fmt::format("{} does not match the network{}; --init-partial takes what matches", train.init, differences));
  require(!copies.empty(), fmt::format("{} has no tensor of the network{}", train.init, differences));
  const torch::NoGradGuard no_grad;
  for (auto& [slot, tensor] : copies) slot.copy_(tensor);
  return fmt::format("{} of {} tensors are those of {}{}", copies.size(), slots.size(), train.init, differences);
}

}  // namespace covnoise
