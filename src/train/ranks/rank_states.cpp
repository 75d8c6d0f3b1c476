#include "train/ranks/rank_states.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

namespace covnoise {
namespace {

constexpr const char* kLast = "noise.last.";

std::string rank_prefix(int rank) { return fmt::format("rank{}.", rank); }

bool is_ranks_own(const std::string& name) {
  return name.rfind("rank", 0) == 0 && name.find_first_not_of("0123456789", 4) == name.find('.') && name[4] != '.';
}

std::vector<NamedTensor> tensors_of_rank(const std::vector<NamedTensor>& all, int rank) {
  const std::string prefix = rank_prefix(rank);
  std::vector<NamedTensor> own;
  for (const auto& [name, tensor] : all) {
    if (name.rfind(prefix, 0) == 0) own.emplace_back(name.substr(prefix.size()), tensor);
  }
  return own;
}

/// Last draws summed over ranks.
std::vector<NamedTensor> summed_draws(const std::vector<NamedTensor>& all, int ranks) {
  std::vector<NamedTensor> sums;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const auto& [name, tensor] : tensors_of_rank(all, rank)) {
      if (name.rfind(kLast, 0) != 0) continue;
      const auto known =
          std::find_if(sums.begin(), sums.end(), [&n = name](const auto& sum) { return sum.first == n; });
      if (known != sums.end()) {
        known->second.add_(tensor);
      } else {
        sums.emplace_back(name, tensor.clone());
      }
    }
  }
  return sums;
}

void take_off_momentum(Checkpoint& checkpoint, const std::vector<NamedTensor>& draws) {
  for (auto& [name, tensor] : checkpoint.optimizer) {
    for (const auto& [draw_name, draw] : draws) {
      if (name == "momentum." + draw_name.substr(std::string(kLast).size())) tensor = tensor - draw;
    }
  }
}

std::string encoded(const std::vector<NamedTensor>& tensors) { return encode_safetensors({tensors, {}}); }
std::vector<NamedTensor> decoded(const std::string& bytes) { return decode_safetensors(bytes, "rank 0").tensors; }

}  // namespace

std::vector<NamedTensor> gather_rank_states(Communicator& communicator, const std::vector<NamedTensor>& own) {
  std::vector<NamedTensor> all;
  const std::string bytes = encoded(own);
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const auto sent = communicator.broadcast_bytes(bytes, rank);
    if (communicator.rank() != 0) continue;
    for (auto& [name, tensor] : decoded(sent)) all.emplace_back(rank_prefix(rank) + name, std::move(tensor));
  }
  return all;
}

RankCheckpoint checkpoint_of_rank(const LoadedCheckpoint& loaded, int rank, int ranks) {
  RankCheckpoint result{loaded, {}, true};
  const auto& all = loaded.checkpoint.optimizer;
  auto& common = result.common.checkpoint.optimizer;
  common.erase(std::remove_if(common.begin(), common.end(), [](const auto& item) { return is_ranks_own(item.first); }),
               common.end());
  const int wrote = loaded.checkpoint.state.value("ranks", 1);
  result.same_ranks = wrote == ranks;
  if (result.same_ranks) {
    result.own = tensors_of_rank(all, rank);
    return result;
  }
  const auto draws = summed_draws(all, wrote);
  if (ranks == 1) take_off_momentum(result.common.checkpoint, draws);
  if (ranks > 1 && rank == 0) result.own = draws;
  return result;
}

std::optional<RankCheckpoint> share_checkpoint(Communicator& communicator,
                                               const std::optional<LoadedCheckpoint>& loaded) {
  const bool has = communicator.rank() == 0 && loaded.has_value();
  const nlohmann::json head = has ? nlohmann::json{{"step", loaded->step},
                                                   {"scheduled", loaded->scheduled},
                                                   {"path", loaded->path.string()},
                                                   {"state", loaded->checkpoint.state}}
                                  : nlohmann::json();
  const auto common_head = nlohmann::json::parse(communicator.broadcast_bytes(head.dump(), 0));
  if (common_head.is_null()) return std::nullopt;
  RankCheckpoint mine;
  if (has) mine = checkpoint_of_rank(*loaded, 0, communicator.size());
  const auto& own_common = mine.common.checkpoint;
  auto model = decoded(communicator.broadcast_bytes(has ? encoded(own_common.model) : "", 0));
  auto optimizer = decoded(communicator.broadcast_bytes(has ? encoded(own_common.optimizer) : "", 0));
  for (int rank = 1; rank < communicator.size(); ++rank) {
    const auto bytes =
        communicator.broadcast_bytes(has ? encoded(checkpoint_of_rank(*loaded, rank, communicator.size()).own) : "", 0);
    if (rank == communicator.rank()) mine.own = decoded(bytes);
  }
  mine.common.step = common_head.at("step");
  mine.common.scheduled = common_head.at("scheduled");
  mine.common.path = common_head.at("path").get<std::string>();
  mine.common.checkpoint = {std::move(model), std::move(optimizer), common_head.at("state")};
  mine.same_ranks = mine.common.checkpoint.state.value("ranks", 1) == communicator.size();
  return mine;
}

}  // namespace covnoise
