#include "build_info.h"
#include "commands/commands.h"
#include "covnoise/core/error.h"
#include "covnoise/core/memory.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>

namespace covnoise {

void warn(const std::string& line) { std::fprintf(stderr, "covnoise: %s\n", line.c_str()); }

}  // namespace covnoise

namespace {

/// Prints one line, even if the message has several.
int complain(std::string message, int exit_code) {
  for (char& c : message) c = c == '\n' ? ' ' : c;
  covnoise::warn(message);
  return exit_code;
}

/// The exit code of a command that printed to standard output, all of which must have been written.
int printed(int exit_code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  return complain("not everything could be written to standard output", 1);
}

/// "covnoise data fetch" where the arguments named that subcommand.
std::string command_name(const CLI::App& app) {
  const auto named = app.get_subcommands();
  return named.empty() ? app.get_name() : app.get_name() + " " + command_name(*named.front());
}

}  // namespace

int main(int argc, char** argv) {
  covnoise::keep_freed_memory();
  CLI::App app("Large-batch training with structured covariance noise", "covnoise");
  app.set_version_flag("--version", "covnoise " COVNOISE_VERSION);
  covnoise::add_train_command(app);
  const int own_arguments = covnoise::launch_arguments(argc, argv);
  covnoise::add_launch_command(app, {argv + own_arguments, argv + argc});
  covnoise::add_eval_command(app);
  covnoise::add_analyze_command(app);
  covnoise::add_runs_command(app);
  covnoise::add_report_command(app);
  covnoise::add_sweep_command(app);
  covnoise::add_paper_command(app);
  covnoise::add_data_command(app);
  covnoise::add_models_command(app);
  covnoise::add_regimes_command(app);
  covnoise::add_theory_command(app);
  covnoise::add_info_command(app);
  try {
    app.parse(own_arguments, argv);
    if (!app.get_subcommands().empty()) return printed(0);
    std::fputs(app.help().c_str(), stderr);
    return 2;
  } catch (const CLI::Success& success) {  // --help, --version
    return printed(app.exit(success));
  } catch (const CLI::ParseError& error) {
    return complain(fmt::format("{} (see {} --help)", error.what(), command_name(app)), 2);
  } catch (const covnoise::Error& error) {
    return complain(error.what(), error.exit_code());
  } catch (const c10::Error& error) {
    return complain(error.what_without_backtrace(), 1);
  } catch (const std::exception& error) {
    return complain(error.what(), 1);
  }
}
