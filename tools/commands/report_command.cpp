#include "commands/commands.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/report/internal/page.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

namespace covnoise {
namespace {

struct ReportArguments {
  std::vector<std::string> folders;
  std::string out;
};

void write_report(const ReportArguments& arguments) {
  const auto report = report::collect({arguments.folders.begin(), arguments.folders.end()});
  const std::string page = report::to_page(report);
  const std::filesystem::path out = arguments.out;
  if (out.has_parent_path()) create_folders(out.parent_path());
  write_file_synced(out, page);
  for (const auto& problem : report.problems) std::fprintf(stderr, "covnoise: left out: %s\n", problem.c_str());
  std::size_t figures = 0;
  for (const auto& folder : report.folders) figures += folder.figures.size();
  std::printf("%s\n", fmt::format("{}: {} runs in {} groups, {} figures, {:.1f} MB", arguments.out, report.runs.size(),
                                  report.groups.size(), figures, static_cast<double>(page.size()) / 1e6)
                          .c_str());
}

}  // namespace

void add_report_command(CLI::App& app) {
  auto arguments = std::make_shared<ReportArguments>();
  auto* command = app.add_subcommand("report", "Write runs and figures as one self-contained HTML file");
  command->add_option("folders", arguments->folders, "folders with runs or figures, searched recursively")->required();
  command->add_option("--out", arguments->out, "HTML file to write")->required();
  command->callback([arguments] { write_report(*arguments); });
}

}  // namespace covnoise
