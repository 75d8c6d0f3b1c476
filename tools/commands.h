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

/// A line on standard error that ends nothing.
void warn(const std::string& line);

}  // namespace covnoise
