#include "covnoise/experiment/internal/paper.h"
#include "experiment/paper/result.h"

#include <fmt/format.h>

namespace covnoise::paper {
namespace {

Json read_item(const std::filesystem::path& path) {
  auto json = kept_json(path);
  require(json.contains("tables") && json.contains("notes") && json.contains("figures"),
          fmt::format("{} is not what covnoise paper writes; make it again", path.string()));
  return json;
}

/// The part of a document that shows an item.
std::string item_markdown(const Item& item, const std::filesystem::path& results, const std::string& link) {
  const auto path = results / item.name / (item.name + ".json");
  const bool there = std::filesystem::exists(path);
  const Json json = there ? read_item(path) : Json::object();
  std::string text = fmt::format("### {}\n    covnoise paper {}{}\n\nThe paper: {}\n", item.title, item.name,
                                 json.value("quick", false) ? " --quick" : "", item.claim);
  if (!there) return text + "\nNot run yet.\n";
  for (const auto& table : json.at("tables")) text += "\n" + Table::from_json(table).to_markdown();
  for (const auto& note : json.at("notes")) text += fmt::format("\n{}\n", note.get<std::string>());
  for (const auto& figure : json.at("figures")) {
    text += fmt::format("\n![{}]({}/{}/{})\n", item.title, link, item.name, figure.get<std::string>());
  }
  return text;
}

}  // namespace

std::string fill_document(const std::string& document, const std::filesystem::path& results, const std::string& link) {
  require(std::filesystem::is_directory(results),
          fmt::format("there is no folder {}; covnoise paper ITEM makes one", results.string()));
  std::string text = document;
  std::size_t filled = 0;
  for (const auto& item : items()) {
    const std::string begin = fmt::format("<!-- paper {} -->\n", item.name),
                      end = fmt::format("<!-- end {} -->", item.name);
    const auto from = text.find(begin);
    if (from == std::string::npos) continue;
    const auto first = from + begin.size(), last = text.find(end, first);
    require(last != std::string::npos,
            fmt::format("the document has no {} after its {}", end, begin.substr(0, begin.size() - 1)));
    text.replace(first, last - first, item_markdown(item, results, link));
    ++filled;
  }
  require(filled > 0,
          "the document has no place for results: write <!-- paper table2 --> and <!-- end table2 --> into it");
  return text;
}

}  // namespace covnoise::paper
