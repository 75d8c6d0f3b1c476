#pragma once
#include "covnoise/distributed/communicator.h"
#include "covnoise/nn/flat_parameters.h"
#include "covnoise/train/internal/checkpoint.h"

#include <optional>

namespace covnoise {

/// In a checkpoint of several ranks, what each has for itself goes by "rank3.<name>" among the optimizer's tensors, and
/// the state has their number as `ranks`.

/// The tensors of all ranks with such names, on rank 0; nothing on the others.
std::vector<NamedTensor> gather_rank_states(Communicator& communicator, const std::vector<NamedTensor>& own);

/// A checkpoint as one rank resumes from it.
struct RankCheckpoint {
  LoadedCheckpoint common;       ///< without the ranks' own tensors
  std::vector<NamedTensor> own;  ///< this rank's
  bool same_ranks = true;        ///< as many as wrote it
};

/// For `ranks` ranks, from one of any number: as many as wrote it get their own tensors back; otherwise rank 0 gets the
/// sum of their last draws, which is what the momentum buffer has too much (DifferencedNoise), and no statistics. One
/// process, which needs no last draw, has it taken off the momentum.
RankCheckpoint checkpoint_of_rank(const LoadedCheckpoint& loaded, int rank, int ranks);

/// The same where rank 0 alone has the checkpoint; nothing where there is none.
std::optional<RankCheckpoint> share_checkpoint(Communicator& communicator,
                                               const std::optional<LoadedCheckpoint>& loaded);

}  // namespace covnoise
