#include "train/config/config_toml.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <set>

#include "covnoise/core/error.h"
#include "covnoise/core/internal/did_you_mean.h"
#include "covnoise/core/internal/parse_toml.h"
#include "covnoise/train/regimes.h"
#include "train/config/config_fields.h"

namespace covnoise {
namespace {

const Field* find_field(const std::string& key) {
  const auto& fields = config_fields();
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const Field& field) { return field.key == key; });
  return found == fields.end() ? nullptr : &*found;
}

std::set<std::string> sections() {
  std::set<std::string> result;
  for (const auto& field : config_fields()) result.insert(field.section());
  return result;
}

/// Keys of the section the unknown one lies in, or else of the whole: a list that can be read.
std::string unknown_key(const std::string& key) {
  const std::string section = key.substr(0, key.find('.'));
  std::vector<std::string> known;
  for (const auto& field : config_fields()) {
    if (field.section() == section) known.push_back(field.key);
  }
  if (known.empty()) {
    for (const auto& field : config_fields()) {
      if (field.name() == key) return fmt::format("unknown key {} (did you mean {}?)", key, field.key);
    }
  }
  return unknown_name("key", key, known.empty() ? config_keys() : known);
}

// Each of these gives nothing where the node has another type.
bool read(const toml::node& node, bool& value) {
  const auto found = node.value_exact<bool>();
  if (found) value = *found;
  return found.has_value();
}

bool read(const toml::node& node, std::int64_t& value) {
  const auto found = node.value_exact<std::int64_t>();
  if (found) value = *found;
  return found.has_value();
}

bool read(const toml::node& node, std::uint64_t& value) {
  std::int64_t number = 0;
  if (!read(node, number) || number < 0) return false;
  value = static_cast<std::uint64_t>(number);
  return true;
}

bool read(const toml::node& node, double& value) {
  if (!node.is_number()) return false;
  value = node.is_integer() ? static_cast<double>(**node.as_integer()) : **node.as_floating_point();
  return true;
}

bool read(const toml::node& node, std::string& value) {
  const auto found = node.value_exact<std::string>();
  if (found) value = *found;
  return found.has_value();
}

/// A member with named values: finds the node's text among them.
template <typename Enum>
bool read_name(const toml::node& node, Enum& value, std::initializer_list<Enum> all, const char* (*name)(Enum)) {
  const auto text = node.value_exact<std::string_view>();
  const auto found = std::find_if(all.begin(), all.end(), [&](Enum one) { return text && *text == name(one); });
  if (found == all.end()) return false;
  value = *found;
  return true;
}

bool read(const toml::node& node, Labels& value) {
  return read_name(node, value, {Labels::kData, Labels::kModel}, labels_name);
}

bool read(const toml::node& node, Placement& value) {
  return read_name(node, value, {Placement::kUpdate, Placement::kGradient, Placement::kWeights}, placement_name);
}

bool read(const toml::node& node, NoiseScale& value) {
  if (node.value_exact<std::string_view>() == "match") {
    value.match = true;
    return true;
  }
  value.match = false;
  return read(node, value.factor);
}

bool read(const toml::node& node, BatchChange& value) {
  const auto* parts = node.as_array();
  return parts && parts->size() == 3 && read(*parts->get(0), value.epoch) && read(*parts->get(1), value.batch) &&
         read(*parts->get(2), value.lr);
}

template <typename T>
bool read(const toml::node& node, std::vector<T>& values) {
  const auto* list = node.as_array();
  if (!list) return false;
  values.assign(list->size(), T());
  for (std::size_t i = 0; i < list->size(); ++i) {
    if (!read(*list->get(i), values[i])) return false;
  }
  return true;
}

std::string wanted(const Member& member) {
  struct {
    const char* operator()(const bool*) const { return "true or false"; }
    const char* operator()(const std::int64_t*) const { return "a whole number"; }
    const char* operator()(const std::uint64_t*) const { return "a whole number from 0 to 9223372036854775807"; }
    const char* operator()(const double*) const { return "a number"; }
    const char* operator()(const std::string*) const { return "text in quotes"; }
    const char* operator()(const std::vector<double>*) const { return "a list of numbers"; }
    const char* operator()(const std::vector<std::string>*) const { return "a list of texts in quotes"; }
    const char* operator()(const std::vector<BatchChange>*) const { return "a list of [epoch, batch, lr]"; }
    const char* operator()(const NoiseScale*) const { return "a number or \"match\""; }
    const char* operator()(const Labels*) const { return "text in quotes"; }
    const char* operator()(const Placement*) const { return "text in quotes"; }
  } names;
  return std::visit(names, member);
}

/// Sets one key; `where` starts the message of an error.
void assign(Config& config, const Field& field, const toml::node& node, const std::string& where) {
  const Member member = field.member(config);
  if (!std::visit([&](auto* value) { return read(node, *value); }, member)) {
    if (const auto text = node.value_exact<std::string_view>(); text && !field.limit.choices.empty()) {
      throw Error(fmt::format("{}: {} = \"{}\": must be {}", where, field.key, *text, limit_text(field.limit)));
    }
    throw Error(fmt::format("{}: {} must be {}", where, field.key, wanted(member)));
  }
  const std::string problem = broken_limit(field, config);
  if (!problem.empty()) {
    throw Error(fmt::format("{}: {} = {}: {}", where, field.key, value_text(field, config), problem));
  }
}

bool has_line(const std::string& text, const std::string& start) {
  return std::regex_search("\n" + text, std::regex("\n[ \t]*" + start));
}

/// What to do about a name that is given as text and as a table.
std::string advice(const std::string& text, std::string_view problem) {
  const bool both =
      has_line(text, "data[ \t]*=[ \t]*[\"']") && has_line(text, "(\\[(regimes\\..*\\.)?data\\]|data\\.)");
  if (!both || problem.find("redefine") == std::string_view::npos) return "";
  return "; data = \"NAME\" is short for name = \"NAME\" in [data]: write only the latter";
}

std::string written_out(const std::string& key) { return key == "data" ? "data.name" : key; }

}  // namespace

struct Recipe::Document {
  std::string name;
  toml::table table;

  std::string where(const toml::source_region& source) const { return toml_place(name, source); }

  /// All keys of `part`, whose own key is `prefix`, except the table of regimes.
  void apply(Config& config, const toml::table& part, const std::string& prefix) const {
    for (const auto& [name_in_part, node] : part) {
      const std::string key = prefix + std::string(name_in_part.str());
      if (key == "regimes") continue;
      if (node.is_table() && prefix.empty() && !key.empty() && sections().count(key) > 0) {
        apply(config, *node.as_table(), key + ".");
        continue;
      }
      const Field* field = find_field(written_out(key));
      if (!field) throw Error(fmt::format("{}: {}", where(name_in_part.source()), unknown_key(key)));
      assign(config, *field, node, where(node.source()));
    }
  }

  const toml::table* regimes() const {
    const auto* node = table.get("regimes");
    if (node && !node->is_table()) throw Error(fmt::format("{}: regimes must be a table", where(node->source())));
    return node ? node->as_table() : nullptr;
  }

  void check_regime_name(const std::string& regime, const toml::source_region& source) const {
    const auto names = regime_names();
    if (std::find(names.begin(), names.end(), regime) != names.end()) return;
    throw Error(fmt::format("{}: {}", where(source), unknown_name("regime", regime, names)));
  }

  /// Also those of regimes that are not chosen: a typing error should not wait for its day.
  void check_regimes() const {
    const auto own = table["regime"].value_exact<std::string>();
    if (own) check_regime_name(*own, table.get("regime")->source());
    if (!regimes()) return;
    for (const auto& [key, node] : *regimes()) {
      const std::string regime(key.str());
      check_regime_name(regime, key.source());
      if (!node.is_table()) throw Error(fmt::format("{}: regimes.{} must be a table", where(node.source()), regime));
      for (const char* not_here : {"regime", "regimes"}) {
        if (const auto* inner = node.as_table()->get(not_here)) {
          throw Error(fmt::format("{}: {} cannot be set in [regimes.{}]", where(inner->source()), not_here, regime));
        }
      }
      Config scratch;
      apply(scratch, *node.as_table(), "");
    }
  }
};

Recipe::Recipe(std::string_view text, std::string name) : document_(std::make_unique<Document>()) {
  document_->name = std::move(name);
  document_->table =
      parse_toml(text, document_->name, [&](std::string_view problem) { return advice(std::string(text), problem); });
  document_->check_regimes();
}

Recipe::~Recipe() = default;

std::optional<std::string> Recipe::regime() const { return document_->table["regime"].value_exact<std::string>(); }

void Recipe::apply(Config& config) const { document_->apply(config, document_->table, ""); }

void Recipe::apply_regime(Config& config) const {
  const auto* regimes = document_->regimes();
  const auto* chosen = regimes ? regimes->get(config.regime) : nullptr;
  if (chosen) document_->apply(config, *chosen->as_table(), "");
}

void Recipe::refuse_regime_tables() const {
  const auto* regimes = document_->regimes();
  if (regimes) throw Error(document_->where(regimes->source()) + ": a resolved configuration has no table of regimes");
}

std::string override_key(const std::string& setting) {
  if (setting.find_first_of("\r\n") != std::string::npos) throw Error("a setting KEY=VALUE must be one line");
  const auto equals = setting.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error(fmt::format("setting {}: must be KEY=VALUE, for example train.lr=0.2", setting));
  }
  const auto last = setting.find_last_not_of(" \t", equals - 1);
  const auto first = std::min(setting.find_first_not_of(" \t"), equals);
  return written_out(last == std::string::npos ? "" : setting.substr(first, last + 1 - first));
}

void apply_override(Config& config, const std::string& setting) {
  const std::string key = override_key(setting), where = "setting " + setting;
  const Field* field = find_field(key);
  if (!field) throw Error(fmt::format("{}: {}", where, unknown_key(key)));
  const auto start = std::min(setting.find_first_not_of(" \t", setting.find('=') + 1), setting.size());
  const std::string text = setting.substr(start);
  const bool quoted = !text.empty() && (text[0] == '"' || text[0] == '\'');
  const Member member = field->member(config);
  const bool wants_text = std::holds_alternative<std::string*>(member) || std::holds_alternative<Labels*>(member) ||
                          std::holds_alternative<Placement*>(member);
  if (!wants_text || quoted) {
    const std::string document = "value = " + text;
    if (const auto problem = toml_problem(document); !problem.empty()) throw Error(where + ": bad TOML: " + problem);
    try {
      const auto table = toml::parse(document);
      if (table.size() != 1) throw Error(where + ": must be one value");
      return assign(config, *field, *table.get("value"), where);
    } catch (const toml::parse_error&) {
      if (quoted) throw Error(where + ": bad quotes");
    }
  }
  assign(config, *field, toml::value<std::string>(text), where);
}

}  // namespace covnoise
