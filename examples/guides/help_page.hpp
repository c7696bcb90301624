#pragma once

// What --help prints.

#include <memory>

namespace CLI {
class FormatterBase;
}

namespace guides {

/// Prints options as manual pages do: `--batch N`, `--format text|markdown|csv|json`, with what
/// they mean, their default and whether they must be given beside them, in lines of 100 characters.
std::shared_ptr<CLI::FormatterBase> help_page();

}  // namespace guides
