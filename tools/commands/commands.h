#pragma once
#include <CLI/CLI.hpp>

namespace covnoise {

// Each adds one subcommand; its callback calls the library and prints.
void add_train_command(CLI::App& app);
void add_eval_command(CLI::App& app);
void add_analyze_command(CLI::App& app);
void add_runs_command(CLI::App& app);
void add_report_command(CLI::App& app);
void add_sweep_command(CLI::App& app);
void add_paper_command(CLI::App& app);
void add_theory_command(CLI::App& app);
void add_info_command(CLI::App& app);
void add_data_command(CLI::App& app);
void add_models_command(CLI::App& app);
void add_regimes_command(CLI::App& app);
/// `command_of_ranks`: what stands behind the options of launch itself.
void add_launch_command(CLI::App& app, const std::vector<std::string>& command_of_ranks);
/// How many of the program's arguments are not part of the command that `launch` starts.
int launch_arguments(int argc, char** argv);

/// A line on standard error that ends nothing.
void warn(const std::string& line);

}  // namespace covnoise
