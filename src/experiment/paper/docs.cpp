#include "covnoise/core/internal/did_you_mean.h"
#include "covnoise/core/internal/statistics.h"
#include "covnoise/experiment/internal/paper.h"
#include "experiment/paper/item_file.h"
#include "experiment/paper/result.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <string_view>

namespace covnoise::paper {
namespace {

namespace fs = std::filesystem;

/// Where a document takes its results from.
struct Source {
  fs::path results;
  std::string link;  ///< the way from the document to `results`

  /// The same for a folder in it.
  Source below(const std::string& folder) const {
    return {results / folder, (fs::path(link) / folder).generic_string()};
  }
};

/// As they are given to a command.
std::string settings_text(const Json& settings) {
  constexpr std::string_view kDevice = "run.device=";
  std::string device, others;
  for (const auto& setting : settings) {
    const auto text = setting.get<std::string>();
    if (text.rfind(kDevice, 0) == 0)
      device = " --device " + text.substr(kDevice.size());
    else
      others += " --set " + text;
  }
  return device + others;
}

/// The command that writes an item.
std::string command_of(const Item& item, const Json& json) {
  std::string text = fmt::format("covnoise paper {}{}", item.name, json.value("quick", false) ? " --quick" : "");
  const Json folders = json.value("folders", Json::object());
  for (const char* which : {"recipes", "results"}) {
    if (folders.contains(which)) text += fmt::format(" --{} {}", which, folders.at(which).get<std::string>());
  }
  return text + settings_text(json.value("settings", Json::array()));
}

std::string figure_markdown(const Item& item, const Source& source, const std::string& figure) {
  return fmt::format("\n![{}]({}/{}/{})\n", item.title, source.link, item.name, figure);
}

/// All tables, notes and figures of an item.
std::string item_markdown(const Item& item, const Json& json, const Source& source) {
  std::string text = fmt::format("### {}\n    {}\n\nThe paper: {}\n", item.title, command_of(item, json), item.claim);
  for (const auto& table : json.at("tables")) text += "\n" + Table::from_json(table).to_markdown();
  for (const auto& note : json.at("notes")) text += fmt::format("\n{}\n", note.get<std::string>());
  for (const auto& figure : json.at("figures")) text += figure_markdown(item, source, figure.get<std::string>());
  return text;
}

/// Comparisons of an accuracy table: every table after the first, which has the accuracies.
std::vector<Table> comparison_tables(const Json& json) {
  std::vector<Table> tables;
  for (const auto& table : json.at("tables")) tables.push_back(Table::from_json(table));
  tables.erase(tables.begin());
  return tables;
}

MeanStd sample_of(const Json& json) {
  const auto number = [&](const char* key) { return json.at(key).is_null() ? NAN : json.at(key).get<double>(); };
  return {number("mean"), number("deviation"), json.at("seeds").get<std::int64_t>()};
}

/// Whether an earlier accuracy table has the regime for this row: the row's page shows each regime once.
bool shown_before(const Item& item, const Row& row, const std::string& regime) {
  for (const auto& earlier : items()) {
    if (earlier.name == item.name) break;
    if (earlier.make != item.make) continue;
    for (const auto& other : earlier.rows) {
      const auto regimes = earlier.regimes_of(other);
      const bool same = other.recipe == row.recipe || other.other_recipe == row.recipe;
      if (same && std::find(regimes.begin(), regimes.end(), regime) != regimes.end()) return true;
    }
  }
  return false;
}

/// The regimes of one row: settings, accuracies, each seed.
Table row_accuracies(const Item& item, const Row& row, const Json& json) {
  Table table{
      "",
      {"regime", "learning rate", "weight decay", "test [%]", "single seeds", "paper [%]", "train [%]", "remarks"},
      {}};
  for (const auto& cell : json.at("numbers").at("cells")) {
    const auto regime = cell.at("regime").get<std::string>();
    if (cell.at("row") != row.recipe || shown_before(item, row, regime)) continue;
    std::vector<std::string> seeds;
    for (const auto& test : cell.at("test_by_seed")) seeds.push_back(fmt::format("{:.2f}", 100 * test.get<double>()));
    table.rows.push_back({regime, fmt::format("{:g}", cell.at("lr").get<double>()),
                          fmt::format("{:g}", cell.at("weight_decay").get<double>()),
                          percent_interval_text(sample_of(cell.at("test"))), fmt::format("{}", fmt::join(seeds, ", ")),
                          number_text(row.number(regime)), percent_interval_text(sample_of(cell.at("train"))),
                          cell.value("remarks", cell.at("incomplete").get<std::string>())});
  }
  return table;
}

/// The comparisons of one row, one below the other.
Table row_comparisons(const Row& row, const Json& json) {
  Table result;
  for (const auto& table : comparison_tables(json)) {
    result.header = table.header;
    result.header.front() = "comparison";
    for (auto cells : table.rows) {
      if (cells.front() != row.network) continue;
      cells.front() = table.title;
      result.rows.push_back(cells);
    }
  }
  return result;
}

std::string row_markdown(const Item& item, const Row& row, const Json& json) {
  return fmt::format("    {} --rows {}\n\n{}\n{}", command_of(item, json), row.recipe,
                     row_accuracies(item, row, json).to_markdown(), row_comparisons(row, json).to_markdown());
}

/// The forest plot and its differences, a line per row.
std::string summary_markdown(const Item& item, const Json& json, const Source& source) {
  Table summary{"", {"difference [95 % interval]"}, {}};
  const auto line_of = [&](const std::string& first) -> std::vector<std::string>& {
    const auto name = first.rfind("pooled", 0) == 0 ? std::string("pooled") : first;
    for (auto& row : summary.rows) {
      if (row.front() == name) return row;
    }
    return summary.rows.emplace_back(std::vector<std::string>{name});
  };
  for (const auto& table : comparison_tables(json)) {
    const auto drawn = [&](const Comparison& c) { return c.drawn && c.first + " - " + c.second == table.title; };
    if (std::none_of(item.comparisons.begin(), item.comparisons.end(), drawn)) continue;
    const std::size_t column = summary.header.size();
    summary.header.push_back(table.title);
    for (const auto& cells : table.rows) {
      const auto paper = cells.at(4).empty() || cells.at(4) == "-" ? "" : fmt::format(", paper {}", cells.at(4));
      auto& line = line_of(cells.front());
      line.resize(column, "-");  // comparisons before this one without a pooled line
      line.push_back(cells.at(1) + paper);
    }
  }
  for (auto& line : summary.rows) line.resize(summary.header.size(), "-");
  return summary.to_markdown() + figure_markdown(item, source, item.name + "-forest.svg");
}

Row find_row(const Item& item, const std::string& name) {
  std::vector<std::string> known = {"summary", "table"};
  for (const auto& row : item.rows) {
    if (row.recipe == name) return row;
    if (row.other_recipe == name) return {row.other_recipe, row.other_network, row.numbers};
    known.push_back(row.recipe);
  }
  throw Error(unknown_name("part of " + item.name, name, known));
}

/// What stands between the markers "<!-- paper NAME PART -->" and "<!-- end NAME -->": NAME is an item, or FOLDER/ITEM
/// for one in a folder of the results.
std::string part_markdown(const std::string& name, const std::string& part, const Source& all) {
  const auto slash = name.rfind('/');
  const auto source = slash == std::string::npos ? all : all.below(name.substr(0, slash));
  const auto item_name = name.substr(slash + 1);
  const auto path = source.results / item_name / (item_name + ".json");
  if (!fs::exists(path)) return fmt::format("{}: not run yet.\n", find_item(item_name, false).title);
  const Json json = read_item(path);
  const Item item = find_item(item_name, json.value("quick", false));
  if (part.empty()) return item_markdown(item, json, source);
  require(!json.at("tables").empty(),
          fmt::format("{} has no table; run covnoise paper {} again", path.string(), item_name));
  if (part == "table") return Table::from_json(json.at("tables").at(0)).to_markdown();
  require(!item.comparisons.empty(),
          fmt::format("{} has no part {}: only tables 2 and 3 have rows and a summary; write "
                      "<!-- paper {} --> or <!-- paper {} table -->",
                      name, part, name, name));
  require(has_comparisons(json),
          fmt::format("{} has no accuracies or comparisons; run covnoise paper {} again", path.string(), item_name));
  return part == "summary" ? summary_markdown(item, json, source) : row_markdown(item, find_row(item, part), json);
}

constexpr std::string_view kMarker = "<!-- paper ";

/// The next marker that begins a line, from `at` on.
std::size_t find_marker(const std::string& document, std::size_t at) {
  auto found = document.find(kMarker, at);
  while (found != std::string::npos && found > 0 && document[found - 1] != '\n') {
    found = document.find(kMarker, found + 1);
  }
  return found;
}

/// `document` with its generated parts replaced.
std::string fill(const std::string& document, const Source& source) {
  const std::string close = " -->\n";
  std::string text;
  std::size_t at = 0;
  for (auto from = find_marker(document, 0); from != std::string::npos; from = find_marker(document, at)) {
    const auto words = from + kMarker.size(), first = document.find(close, words);
    std::istringstream marker(document.substr(words, first - words));
    std::string name, part;
    marker >> name >> part;
    const std::string end = fmt::format("<!-- end {} -->", name);
    const auto last = document.find(end, first);
    require(last != std::string::npos, fmt::format("the document has no {} after <!-- paper {} -->", end, name));
    text += document.substr(at, first + close.size() - at) + part_markdown(name, part, source);
    at = last;
  }
  return text + document.substr(at);
}

/// The document, then the pages in the folder of its name, sorted.
std::vector<fs::path> pages_of(const fs::path& document) {
  std::vector<fs::path> pages;
  std::error_code none;
  for (fs::directory_iterator entry(fs::path(document).replace_extension(), none), end; entry != end;
       entry.increment(none)) {
    if (entry->path().extension() == ".md") pages.push_back(entry->path());
  }
  std::sort(pages.begin(), pages.end());
  pages.insert(pages.begin(), document);
  return pages;
}

}  // namespace

std::vector<fs::path> fill_documents(const fs::path& document, const fs::path& results, bool write) {
  require(fs::is_directory(results),
          fmt::format("there is no folder {}; covnoise paper ITEM writes it to --out", results.string()));
  std::vector<fs::path> changed;
  bool any = false;
  for (const auto& page : pages_of(document)) {
    const auto link = fs::weakly_canonical(results).lexically_relative(fs::weakly_canonical(page).parent_path());
    const std::string before = read_file(page);
    any = any || find_marker(before, 0) != std::string::npos;
    const std::string after = fill(before, {results, link.generic_string()});
    if (after == before) continue;
    if (write) write_file_synced(page, after);
    changed.push_back(page);
  }
  require(any, fmt::format("{} has no place for results: write <!-- paper table2 --> and <!-- end table2 --> into it",
                           document.string()));
  return changed;
}

}  // namespace covnoise::paper
