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

/// The outcome of an item.
struct Result {
  std::vector<Table> tables;
  std::vector<std::string> notes;            ///< one sentence each
  Json numbers = Json::object();             ///< the same, machine-readable
  std::vector<std::string> figures;          ///< names of SVG files in the item's folder
  std::vector<std::filesystem::path> paths;  ///< of all files written
  bool nothing = false;                      ///< no available run has what the item needs
};

/// The input of an item.
struct Context {
  const Item& item;
  const Options& options;
  std::filesystem::path folder;  ///< results/<item>
  std::vector<Cell> cells;
};

/// Throws an Error with the signal's exit code if the user interrupted the command.
void stop_if_asked(const Options& options);

/// Adds the files of a study to the result; those with one of these stems are renamed to the item's name, except JSON.
void adopt(Result& result, const Context& context, const std::vector<std::filesystem::path>& paths,
           const std::vector<std::string>& stems = {});

/// Writes a document into the folder of a run that is whole().
void keep_document(const Trained& run, const char* name, const Json& json);

/// A measurement on a run's network is kept with the run, together with the question (the options) that it answers.
/// Nothing if there is none, or only for another question.
template <typename Answer>
std::optional<Answer> kept_answer(const Trained& run, const char* name, const Json& question) {
  const auto json = run.stored->document(name);
  if (json.value("of", Json()) != question) return std::nullopt;
  try {
    return json.get<Answer>();
  } catch (const Json::exception& error) {
    throw Error(fmt::format("{}: the document {} is damaged ({}); remove it and repeat the command",
                            run.stored->path().string(), name, error.what()));
  }
}

template <typename Answer>
void keep_answer(const Trained& run, const char* name, const Json& question, const Answer& answer) {
  Json json{{"of", question}};
  json.update(Json(answer));
  keep_document(run, name, json);
}

/// A number in a cell; "-" if it is not finite.
std::string number_text(double value, int digits = 2);

}  // namespace covnoise::paper
