#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "covnoise/train/config.h"

namespace covnoise {

/// A recipe's text, parsed. Keeps the TOML library out of the rest.
class Recipe {
 public:
  /// `name` is the file's in errors, which give line and column.
  Recipe(std::string_view text, std::string name);
  ~Recipe();

  std::optional<std::string> regime() const;  ///< as the recipe names it
  void apply(Config& config) const;           ///< its own keys
  void apply_regime(Config& config) const;    ///< its table [regimes.<config.regime>], where it has one
  void refuse_regime_tables() const;          ///< a resolved configuration has none

 private:
  struct Document;
  std::unique_ptr<Document> document_;
};

/// "train.lr=0.2": key and value, the value in TOML or as bare text.
void apply_override(Config& config, const std::string& setting);
/// The key of such a setting, with `data` written out as data.name.
std::string override_key(const std::string& setting);

}  // namespace covnoise
