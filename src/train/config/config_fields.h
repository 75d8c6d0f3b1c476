#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "covnoise/train/config.h"

namespace covnoise {

using Member = std::variant<bool*, std::int64_t*, std::uint64_t*, double*, std::string*, std::vector<double>*,
                            std::vector<std::string>*, std::vector<BatchChange>*, NoiseScale*, Labels*, Placement*>;

/// What a value may be: numbers (and each of a list) between the two, text one of the choices (any, where there are
/// none).
struct Limit {
  double least = -1e300, most = 1e300;
  bool below_most = false;  ///< most itself is not allowed
  std::vector<std::string> choices;
  std::string text;  ///< in words, where those above do not say it
};

/// One key of a recipe. Its name is that of the member: "train.lr" is Config::train.lr.
struct Field {
  std::string key;
  Member (*member)(Config&);
  Limit limit;
  std::string meaning;

  std::string section() const;    ///< "train", "" at the top
  std::string name() const;       ///< "lr"
  bool decides_training() const;  ///< not only how it runs, or what is measured or kept of it
};

const char* labels_name(Labels labels);           ///< "data" or "model"
const char* placement_name(Placement placement);  ///< "update", "gradient" or "weights"

/// All of them: those without a section first, then section by section.
const std::vector<Field>& config_fields();

/// The value as TOML writes it; numbers as short as they can be to come back exactly.
std::string value_text(const Field& field, const Config& config);

/// What is wrong with the value, as "must be ..."; empty where nothing is.
std::string broken_limit(const Field& field, const Config& config);
std::string limit_text(const Limit& limit);

}  // namespace covnoise
