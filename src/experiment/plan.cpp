#include "experiment/plan.h"

#include "covnoise/core/internal/counted.h"
#include "experiment/run_state.h"
#include "experiment/table.h"

#include <fmt/format.h>

namespace covnoise {

std::string plan_text(const std::vector<RunSpec>& specs, const std::filesystem::path& out) {
  Table table{"", {"run", "batch", "epochs", "learning rate", "weight decay", "state"}, {}};
  for (const auto& spec : specs) {
    const auto& train = spec.config.train;
    std::string batch = fmt::to_string(train.batch), rate = fmt::format("{:g}", train.lr);
    for (const auto& change : train.batch_schedule) {
      batch += fmt::format(", then {}", change.batch);
      rate += fmt::format(", then {:g}", change.lr);
    }
    table.rows.push_back({spec.name, batch, fmt::to_string(train.epochs), rate, fmt::format("{:g}", train.weight_decay),
                          state_text(look_up(spec, out))});
  }
  return fmt::format("{}\n{}", counted(specs.size(), "run"), table.to_text());
}

}  // namespace covnoise
