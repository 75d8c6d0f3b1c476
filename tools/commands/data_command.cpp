#include "commands.h"
#include "covnoise/core/error.h"
#include "covnoise/datasets/catalog.h"
#include "covnoise/report/data_preview.h"
#include "number_checks.h"
#include "study_output.h"
#include "transfer_display.h"

#include <fmt/format.h>

#include <cstdlib>
#include <memory>

namespace covnoise {
namespace {

/// Options of all subcommands.
struct DataArguments {
  std::string name, directory, mirror, out;
  std::int64_t resize = 0, crop = 0;
  PreviewOptions preview;
};

std::string fetch_directory(const std::string& given) {
  if (!given.empty()) return given;
  const char* place = std::getenv("COVNOISE_DATA");
  return place && *place ? place : "data";
}

void list(const DataArguments& arguments) {
  fmt::print("{:<14} {:<8} {:>7} {:>7} {:>7}  {}\n", "name", "shape", "classes", "train", "test", "where");
  for (const DataSummary& row : list_data({arguments.directory})) {
    const std::string shape = fmt::format("{}x{}x{}", row.channels, row.height, row.width);
    fmt::print("{:<14} {:<8} {:>7} {:>7} {:>7}  {}\n", row.name, shape, row.classes, row.train, row.test,
               row.where.empty() ? "not found" : row.where);
  }
  fmt::print("{:<14} {:<8} {:>7} {:>7} {:>7}  {}\n", "folder:PATH", "any", "any", "any", "any",
             "PATH/train and PATH/test (or val), one folder of PNG, JPEG or WebP files per class");
}

void fetch(const DataArguments& arguments) {
  const std::string directory = fetch_directory(arguments.directory);
  TransferDisplay display;
  fetch_data(arguments.name, {directory, arguments.mirror, [&](const FetchEvent& event) { display.show(event); }});
  fmt::print("{} is in {}\n", arguments.name, directory);
}

DataRequest request_of(const DataArguments& arguments) {
  DataRequest request(arguments.name);
  request.resize = arguments.resize;
  request.crop = arguments.crop;
  return request;
}

void verify(const DataArguments& arguments) {
  std::size_t bad = 0;
  const std::vector<FileReport> reports = verify_data(request_of(arguments), {arguments.directory});
  for (const FileReport& report : reports) {
    if (!report.problem.empty()) ++bad;
    fmt::print("{}\n", report.problem.empty() ? "ok   " + report.file.string() : "BAD  " + report.problem);
  }
  if (bad == 0) return;
  std::fflush(stdout);
  throw Error(fmt::format("{}: {} of {} files are bad", arguments.name, bad, reports.size()));
}

void preview(const DataArguments& arguments) {
  std::string file = arguments.out;
  if (file.empty()) file = fmt::format("{}.png", arguments.name.substr(arguments.name.find_last_of(":/") + 1));
  const auto written = write_preview(load_data(request_of(arguments), {arguments.directory}), file, arguments.preview);
  fmt::print("{}\n", written.string());
  if (written != file) fmt::print("{}\n", kNoPng);
}

CLI::App* add(CLI::App& data, const char* name, const char* help, const std::shared_ptr<DataArguments>& arguments,
              void (*action)(const DataArguments&), bool named) {
  CLI::App* command = data.add_subcommand(name, help);
  if (named) command->add_option("name", arguments->name, "name of the data set, or folder:PATH")->required();
  command->callback([=] { action(*arguments); });
  return command;
}

}  // namespace

void add_data_command(CLI::App& app) {
  CLI::App* data = app.add_subcommand("data", "List, fetch, verify and preview data sets");
  data->require_subcommand(1);
  const auto arguments = std::make_shared<DataArguments>();
  const char* where = "the only folder to search, instead of $COVNOISE_DATA and the usual ones";
  add(*data, "list", "Show the known data sets and where they are", arguments, list, false)
      ->add_option("--data-dir", arguments->directory, where);
  add(*data, "verify", "Check the files of a data set", arguments, verify, true)
      ->add_option("--data-dir", arguments->directory, where);

  CLI::App* fetch_command =
      add(*data, "fetch", "Download a data set; an interrupted download is resumed", arguments, fetch, true);
  fetch_command->add_option("--data-dir", arguments->directory,
                            "target folder (default: $COVNOISE_DATA, otherwise ./data)");
  fetch_command->add_option("--mirror", arguments->mirror, "base URL of the files, instead of the official sites");

  CLI::App* preview_command = add(*data, "preview", "Write a labelled contact sheet", arguments, preview, true);
  preview_command->add_option("--data-dir", arguments->directory, where);
  preview_command->add_option("--out", arguments->out, "file to write, .png or .svg (default: NAME.png)");
  preview_command->add_option("--split", arguments->preview.split, "train or test")->capture_default_str();
  for (const char* name : {"verify", "preview"}) {
    CLI::App* command = data->get_subcommand(name);
    command->add_option("--resize", arguments->resize, "folder: as data.resize")->check(at_least_zero());
    command->add_option("--crop", arguments->crop, "folder: as data.crop")->check(at_least_zero());
  }
}

}  // namespace covnoise
