#include "measure_gpu/report.hpp"

#include <gpuplan/gpu.hpp>
#include <gpuplan/io/format.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/io/text.hpp>
#include <gpuplan/measured_device.hpp>
#include <gpuplan/units.hpp>

#include <string>
#include <utility>
#include <vector>

namespace measure_gpu_program {
namespace {

namespace io = gpuplan::io;
using gpuplan::known;
using gpuplan::literals::operator""_GBps;
using gpuplan::literals::operator""_TFLOPS;
using gpuplan::literals::operator""_us;
using gpuplan::literals::operator""_W;
using io::cell;

// One line of the report; numbers are in `unit`.
struct line {
  std::string what;
  const char* unit = "";
  double reached = 0;
  known<double> lower_quartile{};
  known<double> upper_quartile{};
  known<double> sheet{};
  known<int> clock_MHz{};
  known<double> draw_W{};
  std::int64_t samples = 0;  // 0: of a fit
  std::string note{};
};

std::string bytes_text(gpuplan::bytes size) {
  const double mebibytes = size.value() / 1048576;
  return mebibytes < 1024 ? io::decimal(mebibytes, mebibytes < 10 ? 2 : 0) + " MiB"
                          : io::decimal(mebibytes / 1024, 2) + " GiB";
}

class lines {
 public:
  std::vector<line> all;

  explicit lines(const report& of) : spec_(of.spec) {
    const gpuplan::measured_device measured = of.measured.view();
    matmuls(measured);
    for (const gpuplan::measured_issue& one : measured.issue)
      add(std::string(text(one.probe)) + ' ' + name_of(one.format, one.sum),
          "TFLOPS",
          1_TFLOPS,
          one.rate,
          peak_of_units(one),
          io::decimal(one.flop_per_clock_per_sm, 0) + " FLOP per clock and SM");
    for (const gpuplan::measured_point& one : measured.surface) {
      line made{.what = "matmul " + name_of(one.format, one.sum),
                .unit = "TFLOPS",
                .reached = in(one.rate, 1_TFLOPS),
                .note = text_of(one.shape)};
      if (const auto sheet = peak_of(one.format, one.sum)) made.sheet = in(*sheet, 1_TFLOPS);
      all.push_back(std::move(made));
    }
    const known<gpuplan::bandwidth> memory = spec_.memory_bandwidth > gpuplan::bandwidth{}
                                                 ? known(spec_.memory_bandwidth)
                                                 : known<gpuplan::bandwidth>();
    rate("memory copy", measured.copy, memory);
    rate("memory triad", measured.triad, memory);
    rate("memory read", measured.read, memory);
    rate("memory write", measured.write, memory);
    rate("L2 cache read",
         measured.l2,
         {},
         measured.l2_knee ? "up to " + bytes_text(*measured.l2_knee) : "");
    const known<gpuplan::bandwidth> pcie =
        spec_.pcie ? known(spec_.pcie->each_direction()) : known<gpuplan::bandwidth>();
    host("pinned", measured.pinned, pcie);
    host("pageable", measured.pageable, pcie);
    rate("copy to a peer",
         measured.peer_copy,
         spec_.peers ? known(spec_.peers->each_direction()) : known<gpuplan::bandwidth>());
    for (const gpuplan::measured_all_reduce& one : measured.all_reduces)
      all.push_back({.what = "all-reduce of " + std::to_string(one.devices),
                     .unit = "GB/s",
                     .reached = in(one.rate, 1_GBps),
                     .note = "and " + io::decimal(in(one.latency, 1_us), 1) + " us"});
    time("empty kernel, from call to end", measured.kernel_launch);
    time("empty kernel, of the host", measured.kernel_enqueue);
    time("empty kernel, of the device", measured.empty_kernel);
    time("empty kernel in a graph", measured.graph_node);
  }

 private:
  const gpuplan::gpu_spec& spec_;

  static std::string text_of(const gpuplan::matmul_shape& of) {
    return std::to_string(of.m) + " x " + std::to_string(of.n) + " x " + std::to_string(of.k);
  }
  static std::string name_of(gpuplan::number_format format, gpuplan::accumulator sum) {
    const std::string name = text(format);
    return sum == gpuplan::accumulator::fp32 ? name : name + " summed in " + text(sum);
  }
  [[nodiscard]] known<gpuplan::compute_rate> peak_of(gpuplan::number_format format,
                                                     gpuplan::accumulator sum) const {
    const auto found = peak(spec_, format, sum);
    return found ? known(*found) : known<gpuplan::compute_rate>();
  }

  // A probe is of vector or of matrix units, and `peak` is of the faster of the two.
  [[nodiscard]] known<gpuplan::compute_rate> peak_of_units(
      const gpuplan::measured_issue& of) const {
    using gpuplan::number_format;
    const gpuplan::peak_rates& dense = spec_.dense;
    const bool is_vector = of.probe == gpuplan::issue_probe::fma;
    if (of.format == number_format::fp64) return is_vector ? dense.fp64 : dense.fp64_matrix;
    if (of.format == number_format::fp16 && of.sum == gpuplan::accumulator::fp16)
      return is_vector ? dense.fp16_vector : dense.fp16_sum_fp16;
    return peak_of(of.format, of.sum);
  }

  template <class Quantity>
  void add(std::string what,
           const char* unit,
           Quantity one,
           const gpuplan::reading<Quantity>& of,
           const known<Quantity>& sheet,
           std::string note) {
    line made{.what = std::move(what),
              .unit = unit,
              .reached = in(of.median, one),
              .lower_quartile = in(of.lower_quartile, one),
              .upper_quartile = in(of.upper_quartile, one),
              .clock_MHz = of.clock_MHz,
              .samples = of.samples,
              .note = std::move(note)};
    if (sheet) made.sheet = in(*sheet, one);
    if (of.draw) made.draw_W = in(*of.draw, 1_W);
    all.push_back(std::move(made));
  }
  void rate(std::string what,
            const known<gpuplan::reading<gpuplan::bandwidth>>& of,
            const known<gpuplan::bandwidth>& sheet,
            std::string note = "") {
    if (of) add(std::move(what), "GB/s", 1_GBps, *of, sheet, std::move(note));
  }
  void time(const char* what, const known<gpuplan::reading<gpuplan::duration>>& of) {
    if (of) add(what, "us", 1_us, *of, {}, "");
  }
  void host(const std::string& kind,
            const gpuplan::measured_host_link& link,
            const known<gpuplan::bandwidth>& sheet) {
    rate("host to device, " + kind, link.to_device, sheet);
    rate("device to host, " + kind, link.from_device, sheet);
    rate("both ways, " + kind,
         link.both_ways,
         sheet ? known(2 * *sheet) : known<gpuplan::bandwidth>());
  }
  void matmuls(const gpuplan::measured_device& measured) {
    for (const gpuplan::measured_matmul& one : measured.matmuls) {
      const std::string name = "matmul " + name_of(one.format, one.sum);
      const auto sheet = peak_of(one.format, one.sum);
      const std::string shape = text_of(one.shape);
      const auto state = [&](const char* kind, const auto& rate, const std::string& note) {
        if (rate) add(name + ", " + kind, "TFLOPS", 1_TFLOPS, *rate, sheet, note);
      };
      state("sustained", one.sustained, shape);
      state("burst", one.burst, shape);
      state("zeros", one.zeros, shape);
      state("own kernel", one.own_kernel, shape + ", a lower bound");
    }
  }
};

template <class T>
cell cell_of(const known<T>& value, int digits) {
  return value ? cell(static_cast<double>(*value), digits) : cell();
}

// Three digits that say something, as far as the first is before the point.
int digits_for(double value) { return value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2; }

cell percent(const line& of, int digits) {
  return of.sheet ? cell(100 * of.reached / *of.sheet, digits) : cell();
}

io::table for_people(const std::vector<line>& all, const std::string& title) {
  constexpr auto point = io::alignment::point;
  io::table table{.title = title,
                  .columns = {{.name = "measured"},
                              {.name = "reached", .align = point},
                              {.name = "unit"},
                              {.name = "data sheet", .align = point},
                              {.name = "%", .align = point},
                              {.name = "clock", .unit = "MHz", .align = io::alignment::right},
                              {.name = "power", .unit = "W", .align = io::alignment::right},
                              {.name = "note"}}};
  for (const line& one : all)
    table.rows.push_back({one.what,
                          cell(one.reached, digits_for(one.reached)),
                          one.unit,
                          one.sheet ? cell(*one.sheet, digits_for(*one.sheet)) : cell(),
                          percent(one, 1),
                          cell_of(one.clock_MHz, 0),
                          cell_of(one.draw_W, 0),
                          cell(one.note).in(io::tone::faint)});
  return table;
}

io::table for_programs(const std::vector<line>& all, const report& of) {
  io::table table;
  for (const char* name : {"device",
                           "date",
                           "measured",
                           "unit",
                           "reached",
                           "lower_quartile",
                           "upper_quartile",
                           "data_sheet",
                           "percent",
                           "clock_MHz",
                           "power_W",
                           "samples",
                           "note"})
    table.columns.push_back({.name = name});
  for (const line& one : all)
    table.rows.push_back({of.measured.name,
                          of.measured.date,
                          one.what,
                          one.unit,
                          one.reached,
                          cell_of(one.lower_quartile, cell::shortest),
                          cell_of(one.upper_quartile, cell::shortest),
                          cell_of(one.sheet, cell::shortest),
                          percent(one, cell::shortest),
                          cell_of(one.clock_MHz, 0),
                          cell_of(one.draw_W, cell::shortest),
                          one.samples > 0 ? cell(one.samples) : cell(),
                          one.note});
  return table;
}

// What there is to know of the device beside its rates.
std::string description(const report& of) {
  const gpuplan::measured_device measured = of.measured.view();
  std::string out = std::to_string(measured.sm_count) + " SMs";
  if (measured.memory) out += ", " + bytes_text(*measured.memory);
  if (measured.free_memory) out += " of which " + bytes_text(*measured.free_memory) + " are free";
  if (measured.context_memory) out += ", context " + bytes_text(*measured.context_memory);
  if (measured.error_correction)
    out += std::string(", ECC ") + (*measured.error_correction ? "on" : "off");
  if (measured.power_limit)
    out += ", power limit " + io::decimal(in(*measured.power_limit, 1_W), 0) + " W";
  out += "; driver " + of.measured.driver + ", runtime " + of.measured.runtime;
  if (!of.measured.library.empty()) out += ", " + of.measured.library;
  return out + ". " +
         (of.measured.id.empty()
              ? "Not in the catalogue: no data sheet to compare with."
              : std::string("Data sheet: ") + of.spec.name +
                    (*of.spec.slice == '\0' ? "" : ", MIG ") + of.spec.slice + ", dense peaks.");
}

}  // namespace

std::string render(const report& of, const guides::output& as) {
  const std::vector<line> all = lines(of).all;
  if (!traits_of(as.format).for_people) return guides::render(for_programs(all, of), as);
  io::table table = for_people(all, of.measured.name + ", measured " + of.measured.date);
  if (as.format != io::format::text) {
    std::string out = write(table, as.format) + "\n" + description(of) + "\n";
    for (const std::string& warning : of.warnings) out += "\nWarning: " + warning + "\n";
    return out;
  }
  std::string out = guides::bold(table.title, as.color);
  out += '\n';
  for (int at = 0; at < io::display_width(table.title); ++at) out += "═";
  out += '\n';
  for (const std::string& one : io::wrap(description(of), as.width - 2)) out += "  " + one + '\n';
  for (const std::string& warning : of.warnings)
    for (const std::string& one : io::wrap("Warning: " + warning, as.width - 2))
      out += "  " + one + '\n';
  table.title.clear();
  return out + '\n' + to_text(table, {.width = as.width, .indent = 2, .color = as.color});
}

}  // namespace measure_gpu_program
