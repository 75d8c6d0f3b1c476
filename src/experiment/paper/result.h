#pragma once
#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "experiment/paper/cells.h"
#include "experiment/table.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace covnoise::paper {

/// What an item comes to.
struct Result {
  std::vector<Table> tables;
  std::vector<std::string> notes;            ///< one sentence each, for people
  Json numbers = Json::object();             ///< the same for programs
  std::vector<std::string> figures;          ///< names of SVG files in the item's folder
  std::vector<std::filesystem::path> paths;  ///< of all that was written
  bool nothing = false;                      ///< no run has what it is made from
};

/// What an item is made from.
struct Context {
  const Item& item;
  const Options& options;
  std::filesystem::path folder;  ///< results/<item>
  std::vector<Cell> cells;
};

/// An Error with the signal's exit code where the user wants to stop.
void stop_if_asked(const Options& options);

/// Adds what a study wrote to the result; files of these stems, but for JSON, get the item's name.
void adopt(Result& result, const Context& context, const std::vector<std::filesystem::path>& paths,
           const std::vector<std::string>& stems = {});

/// Writes a document into the folder of a run that is whole().
void keep_document(const Trained& run, const char* name, const Json& json);

/// What was found in a run's network stays with the run, together with the question that it answers. Nothing where
/// there is no answer, or one to another question.
template <typename Answer>
std::optional<Answer> kept_answer(const Trained& run, const char* name, const Json& question) {
  const auto json = run.stored->document(name);
  if (json.value("of", Json()) != question) return std::nullopt;
  return json.get<Answer>();
}

template <typename Answer>
void keep_answer(const Trained& run, const char* name, const Json& question, const Answer& answer) {
  Json json{{"of", question}};
  json.update(Json(answer));
  keep_document(run, name, json);
}

/// A number in a cell: "-" where it is not finite.
std::string number_text(double value, int digits = 2);

}  // namespace covnoise::paper
