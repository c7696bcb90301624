// Fits what is known of links to files of measured collectives.

#include <gpuplan/io/table.hpp>
#include <gpuplan/io/text.hpp>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "csv.hpp"
#include "guides/front_end.hpp"
#include "links_fit.hpp"
#include "number.hpp"

namespace {

using namespace accuracy;
using gpuplan::io::alignment;
using gpuplan::io::table;

std::string three_digits(double value) { return percent_text(value, 3); }

table table_of(const std::vector<std::string>& words, const std::vector<std::string>& numbers) {
  table t;
  for (const std::string& name : words) t.columns.push_back({.name = name});
  for (const std::string& name : numbers)
    t.columns.push_back({.name = name, .align = alignment::right});
  return t;
}

table values_as_table(const links_fit& fit) {
  table t = table_of({"owner", "value", "unit"}, {"rows", "before", "fitted", "low", "high"});
  for (const fitted_link_value& one : fit.values)
    t.rows.push_back({one.owner,
                      one.name,
                      one.unit,
                      one.rows,
                      three_digits(one.before),
                      three_digits(one.value),
                      three_digits(one.low),
                      three_digits(one.high)});
  return t;
}

table errors_as_table(const links_fit& fit) {
  table t = table_of({"system"},
                     {"rows",
                      "before_mean",
                      "fitted_mean",
                      "fitted_median",
                      "row_left_out_mean",
                      "system_left_out_mean"});
  for (const system_errors& one : fit.systems)
    t.rows.push_back({one.system,
                      one.rows,
                      three_digits(one.before_mean),
                      three_digits(one.fitted_mean),
                      three_digits(one.fitted_median),
                      three_digits(one.row_left_out_mean),
                      three_digits(one.system_left_out_mean)});
  return t;
}

table ablations_as_table(const links_fit& fit) {
  table t = table_of({"without"}, {"mean"});
  for (const ablation& one : fit.ablations) t.rows.push_back({one.without, three_digits(one.mean)});
  return t;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> paths;
  int evaluations = 4000;
  return guides::run_program(
      argc,
      argv,
      {"fit_links",
       "Fits what collectives reach of links, one value for each kind of link, to files of "
       "measured\n"
       "collectives.",
       "",
       [&](CLI::App& app) {
         app.add_option("file", paths, "Files of collectives")->required();
         app.add_option("--evaluations", evaluations, "For each fit");
       },
       [&](const guides::output& as) {
         try {
           std::vector<csv_file> files;
           for (const std::string& path : paths) files.push_back(read_csv(path));
           const links_fit fit = fit_links(measured_collectives(files), evaluations);
           return guides::render(values_as_table(fit), as) + "\n" +
                  guides::render(errors_as_table(fit), as) + "\n" +
                  guides::render(ablations_as_table(fit), as);
         } catch (const bad_file& error) {
           throw guides::bad_request(error.what());
         }
       }});
}
