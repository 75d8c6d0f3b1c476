#include "experiment/plan.h"

#include "covnoise/core/internal/counted.h"
#include "experiment/table.h"

#include <fmt/format.h>

namespace covnoise {

std::string plan_text(const std::vector<Trained>& runs) {
  Table table{"", {"run", "batch", "epochs", "learning rate", "weight decay", "state"}, {}};
  for (const auto& run : runs) {
    const auto& train = run.spec.config.train;
    std::string batch = fmt::to_string(train.batch), rate = fmt::format("{:g}", train.lr);
    for (const auto& change : train.batch_schedule) {
      batch += fmt::format(", then {}", change.batch);
      rate += fmt::format(", then {:g}", change.lr);
    }
    table.rows.push_back({run.spec.name, batch, fmt::to_string(train.epochs), rate,
                          fmt::format("{:g}", train.weight_decay), state_text(run)});
  }
  return fmt::format("{}\n{}", counted(runs.size(), "run"), table.to_text());
}

}  // namespace covnoise
