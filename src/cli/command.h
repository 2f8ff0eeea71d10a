// One subcommand of `headwise`: it declares its options and, when chosen, leaves a function to run.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace headwise::cli {

/// What main() runs after parsing; returns the exit code.
using Action = std::function<int()>;

void add_corpus(CLI::App& app, Action& action);
void add_check(CLI::App& app, Action& action);
void add_config(CLI::App& app, Action& action);
void add_train(CLI::App& app, Action& action);
void add_translate(CLI::App& app, Action& action);
void add_score(CLI::App& app, Action& action);
void add_average(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_evaluate(CLI::App& app, Action& action);
void add_shapes(CLI::App& app, Action& action);
void add_check_masks(CLI::App& app, Action& action);

}  // namespace headwise::cli
