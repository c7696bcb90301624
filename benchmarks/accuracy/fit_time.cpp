// Fits the parameters of the time model to files of timed runs.

#include <gpuplan/io/table.hpp>
#include <gpuplan/io/text.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "csv.hpp"
#include "guides/front_end.hpp"
#include "number.hpp"
#include "step_predictions.hpp"
#include "time_fit.hpp"

namespace {

using namespace accuracy;
using gpuplan::io::alignment;
using gpuplan::io::cell;
using gpuplan::io::table;

std::string three_digits(double value) { return percent_text(value, 3); }

table parameters_as_table(const time_fit& fit) {
  table t{.columns = {{.name = "owner"},
                      {.name = "parameter"},
                      {.name = "unit"},
                      {.name = "rows", .align = alignment::right},
                      {.name = "before", .align = alignment::right},
                      {.name = "fitted", .align = alignment::right},
                      {.name = "resampled_low", .align = alignment::right},
                      {.name = "resampled_high", .align = alignment::right}}};
  for (const fitted_parameter& one : fit.parameters)
    t.rows.push_back({one.owner,
                      one.what->name,
                      one.what->unit,
                      one.rows,
                      three_digits(one.before),
                      three_digits(one.value),
                      three_digits(one.low),
                      three_digits(one.high)});
  return t;
}

table errors_as_table(const time_fit& fit) {
  table t{.columns = {{.name = "source"}}};
  for (const char* name : {"before", "fitted", "cells_left_out", "source_left_out", "unseen"})
    for (const char* what : {"rows", "mean", "median"})
      t.columns.push_back({.name = std::string(name) + "_" + what, .align = alignment::right});
  for (const source_errors& one : fit.sources) {
    std::vector<cell> row{one.source};
    for (const error_size* size :
         {&one.before, &one.fitted, &one.left_out_cells, &one.left_out_source, &one.unseen}) {
      row.push_back(size->rows);
      row.push_back(size->rows != 0 ? cell(three_digits(size->mean)) : cell());
      row.push_back(size->rows != 0 ? cell(three_digits(size->median)) : cell());
    }
    t.rows.push_back(row);
  }
  return t;
}

void switch_off(const std::string& name, gpuplan::time_terms& terms) {
  for (const time_term& term : time_terms_by_name())
    if (name == term.name) {
      terms.*term.is_on = false;
      return;
    }
  throw guides::bad_request("the time model has no term " + name);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> paths;
  std::vector<std::string> without;
  fit_settings settings;
  bool errors = false;
  bool untimed = false;
  return guides::run_program(
      argc,
      argv,
      {"fit_time",
       "Fits what kernels reach of a device, one set for each architecture, and what a framework "
       "costs, one\nset for each, to files of timed runs.",
       "",
       [&](CLI::App& app) {
         app.add_option("file", paths, "Files of runs")->required();
         app.add_option("--only", settings.only, "Parameters to fit; none: all");
         app.add_option("--owner", settings.owners, "Whose parameters to fit; none: all");
         app.add_option("--without", without, "Terms of the model to switch off");
         app.add_option("--rounds", settings.rounds, "Of the fit to all rows");
         app.add_option("--rounds-again", settings.rounds_again, "Of a fit to a part of them");
         app.add_option("--folds", settings.folds, "Of cells that are left out");
         app.add_option("--resamples", settings.resamples, "Of cells, for the parameters' ranges");
         app.add_flag(
             "--untimed",
             untimed,
             "One set of costs for each kind of software, whoever ran; from what catalogue "
             "has of those that nobody timed");
         app.add_flag("--errors", errors, "Errors by source instead of parameters");
       },
       [&](const guides::output& as) {
         try {
           std::vector<csv_file> files;
           for (const std::string& path : paths) files.push_back(read_csv(path));
           for (const std::string& term : without) switch_off(term, settings.terms);
           std::vector<timed_row> rows = timed_rows(files);
           if (untimed)
             for (timed_row& row : rows)
               row.model.setup.framework = as_untimed(row.model.setup.framework);
           const time_fit fit = fit_time(rows, settings);
           if (as.format != gpuplan::io::format::text)
             return guides::render(errors ? errors_as_table(fit) : parameters_as_table(fit), as);
           guides::output wide = as;
           wide.width = std::max(as.width, 240);  // else a line for each cell
           return guides::render(parameters_as_table(fit), wide) + "\nErrors in %\n" +
                  guides::render(errors_as_table(fit), wide);
         } catch (const bad_file& error) {
           throw guides::bad_request(error.what());
         }
       }});
}
