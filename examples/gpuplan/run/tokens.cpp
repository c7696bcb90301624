#include "run/tokens.hpp"

#include <gpuplan/result.hpp>

#include <string>

#include "guides/front_end.hpp"
#include "plan/report.hpp"
#include "setups/numbers.hpp"

namespace run_program {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;
using guides::bad_request;
using io::cell;

io::table table_of(const std::string& title, std::vector<const char*> numbers) {
  io::table table{.title = title};
  table.columns = {{.name = "gpu"}, {.name = "gpus", .align = io::alignment::right}};
  for (const char* const name : numbers)
    table.columns.push_back({.name = name, .align = io::alignment::right});
  return table;
}

std::string figures(double value) { return io::decimal(value, plan_program::digits_of(value)); }

}  // namespace

runs::timed_words at_own_batch(const request& asked) {
  runs::timed_words made = asked.timed;
  if (asked.tuned_batch == 0) return made;
  if (made.stated.batch == 0)
    throw bad_request("--tuned-batch: --batch says how many samples a step of the run has");
  made.run.tokens = checked(tokens_at_batch(made.run.tokens,
                                            static_cast<double>(asked.tuned_batch),
                                            static_cast<double>(made.stated.batch),
                                            asked.critical_batch));
  return made;
}

batch_price price_of(const request& asked, const run& one) {
  return checked(price_of_batch(static_cast<double>(one.of.batch), asked.critical_batch));
}

double worth_of(const request& asked, const run& one) {
  if (!(one.of.tokens > 0))
    throw bad_request("--unique-tokens: --sequence-length says how many tokens a sample has");
  return checked(worth_of_tokens(one.of.tokens, asked.unique_tokens));
}

io::table batches(const request& asked, const std::vector<run>& all) {
  io::table table =
      table_of("what the batch costs, by McCandlish et al. 2018, at a critical one of " +
                   io::decimal(asked.critical_batch, -1) + " samples",
               {"batch", "of the least steps", "of the least samples"});
  if (asked.tuned_batch > 0)
    table.title +=
        "; as many tokens as end where --tokens at " + setups::grouped(asked.tuned_batch) + " do";
  for (const run& one : all) {
    const batch_price price = price_of(asked, one);
    table.rows.push_back({one.of.name(),
                          one.of.gpus,
                          setups::grouped(one.of.batch),
                          figures(price.steps) + " times",
                          figures(price.samples) + " times"});
  }
  return table;
}

io::table unique_data(const request& asked, const std::vector<run>& all) {
  io::table table =
      table_of("what tokens are worth that are read again, by Muennighoff et al. 2023",
               {"tokens", "epochs", "worth unique ones", "%"});
  for (const run& one : all) {
    const double worth = worth_of(asked, one);
    table.rows.push_back({one.of.name(),
                          one.of.gpus,
                          cell(plan_program::rounded_count(one.of.tokens), 0),
                          figures(one.of.tokens / asked.unique_tokens),
                          cell(plan_program::rounded_count(worth), 0),
                          io::decimal(100 * worth / one.of.tokens, 1)});
  }
  return table;
}

}  // namespace run_program
