// gpuplan for Python: what a command of the program gpuplan answers, in this process.

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <gpuplan/io/format.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/version.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "guides/front_end.hpp"
#include "guides/help_page.hpp"
#include "guides/interruption.hpp"
#include "program.hpp"

namespace nb = nanobind;

namespace {

using gpuplan::errc;
using gpuplan::fact;
using gpuplan::fact_kind;
using gpuplan::failure;

const char* name_of(errc code) {
  switch (code) {
#define GPUPLAN_ERROR(name, sentence) \
  case errc::name:                    \
    return #name;
#include <gpuplan/detail/errors.inc>
    case errc::none:
      break;
  }
  return "none";
}

nb::object value_of(const gpuplan::named_fact& known) {
  switch (known.kind) {
    case fact_kind::number:
      return nb::int_(known.value);
    case fact_kind::fraction:
      return nb::float_(static_cast<double>(known.value) / 1e6);
    case fact_kind::yes_no:
      return nb::bool_(known.value != 0);
    default:
      return nb::str(word_of(known));
  }
}

// PlanError(sentence, code, field, value, facts).
[[noreturn]] void raise(const guides::bad_request& error) {
  const failure& why = error.why();
  nb::object code = nb::none();
  nb::object field = nb::none();
  nb::object value = nb::none();
  nb::dict facts;
  if (why.code != errc::none) {
    code = nb::str(name_of(why.code));
    for (unsigned at = 0; at < why.count; ++at)
      facts[text(why.facts[at].name)] = value_of(why.facts[at]);
    if (why.at_fault() != fact::none) field = nb::str(text(why.at_fault()));
    if (why.subject[0] != '\0')
      value = nb::str(static_cast<const char*>(why.subject));
    else if (why.count > 0)
      value = value_of(why.facts[0]);
  }
  const nb::object type = nb::module_::import_("gpuplan._errors").attr("PlanError");
  const nb::object made = type(nb::str(error.what()), code, field, value, facts);
  PyErr_SetObject(type.ptr(), made.ptr());
  throw nb::python_error();
}

const gpuplan_program::command& command_called(const std::string& name) {
  for (const gpuplan_program::command& one : gpuplan_program::commands())
    if (name == one.name) return one;
  throw nb::key_error(name.c_str());
}

// ---- what may be asked

struct option {
  std::string name;  // "--sequence-length", or of an argument "MODEL"
  std::string value;
  std::vector<std::string> choices{};
  std::string meaning;
  bool is_shown = true;  // by the command's own --help
  bool takes_several = false;
  std::optional<std::string> separator{};
};

struct described_command {
  std::string about;
  std::vector<option> options{};
};

described_command describe(const std::string& name) {
  const guides::program is = gpuplan_program::program_of(command_called(name));
  guides::asked_output asked;
  CLI::App app;
  guides::describe(app, is, asked);
  described_command made{.about = is.about};
  for (const CLI::Option* const one : app.get_options()) {
    const std::string called = one->get_single_name();
    if (called == "help" || called == "version" || called == "format" || called == "color")
      continue;
    const guides::option_words words = guides::words_of(*one);
    const auto add = [&](const std::string& as) {
      made.options.push_back({.name = as,
                              .value = words.value,
                              .choices = words.choices,
                              .meaning = words.meaning,
                              .is_shown = !one->get_group().empty(),
                              .takes_several = one->get_items_expected_max() > 1});
      if (one->get_delimiter() != '\0')
        made.options.back().separator = std::string(1, one->get_delimiter());
    };
    if (!one->nonpositional()) add(called);
    for (const std::string& of : one->get_lnames()) add("--" + of);
  }
  return made;
}

// ---- answers

struct answered {
  std::vector<std::string> texts{};  // one for each of the formats
  std::vector<std::string> remarks{};
  std::vector<std::string> problems{};
};

// Waits for what other threads work out, and looks whether Ctrl-C was pressed meanwhile.
class waiting {
 public:
  void start(const guides::program& is,
             const std::vector<std::string>& words,
             const guides::output& as) {
    parts_.push_back(std::async(std::launch::async, [this, is, words, as]() -> part {
      const guides::stoppable here(stop_);
      guides::heard_remarks heard;
      guides::printed made = guides::answer(is, words, as);
      return {made.text, heard.lines, made.problems};
    }));
  }

  answered wait() {
    answered made;
    std::exception_ptr failed;
    for (std::future<part>& one : parts_) {
      while (one.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready) {
        if (stop_) continue;
        const nb::gil_scoped_acquire gil;
        if (PyErr_CheckSignals() == 0) continue;
        stop_ = true;
        try {
          nb::raise_python_error();
        } catch (...) {
          interrupted_ = std::current_exception();
        }
      }
      try {
        part is = one.get();
        made.texts.push_back(std::move(is.text));
        made.remarks = std::move(is.remarks);
        made.problems = std::move(is.problems);
      } catch (...) {
        if (!failed) failed = std::current_exception();
      }
    }
    if (interrupted_) std::rethrow_exception(interrupted_);
    if (failed) std::rethrow_exception(failed);
    return made;
  }

 private:
  struct part {
    std::string text;
    std::vector<std::string> remarks;
    std::vector<std::string> problems;
  };

  std::atomic<bool> stop_ = false;
  std::exception_ptr interrupted_{};
  std::vector<std::future<part>> parts_{};  // gone before what they look at
};

answered ask(const std::string& command,
             const std::vector<std::string>& words,
             const std::vector<std::string>& formats,
             int width) {
  const gpuplan_program::command& called = command_called(command);
  std::vector<guides::output> outputs;
  for (const std::string& format : formats) {
    const auto known = gpuplan::io::format_named(format);
    if (!known) throw nb::value_error(("there is no format " + format).c_str());
    outputs.push_back({.format = *known, .width = std::clamp(width, 60, 160)});
  }
  try {
    const nb::gil_scoped_release others_run;
    waiting all;
    for (const guides::output& as : outputs)
      all.start(gpuplan_program::program_of(called), words, as);
    return all.wait();
  } catch (const guides::bad_request& error) {
    raise(error);
  }
}

}  // namespace

NB_MODULE(_core, module) {
  module.doc() = "What the program gpuplan answers, in this process.";
  module.attr("version") =
      nb::str((std::to_string(GPUPLAN_VERSION_MAJOR) + "." + std::to_string(GPUPLAN_VERSION_MINOR) +
               "." + std::to_string(GPUPLAN_VERSION_PATCH))
                  .c_str());

  nb::class_<option>(module, "Option", "An option of a command, or an argument.")
      .def_ro("name", &option::name, "As the command line has it, or of an argument its name.")
      .def_ro("value", &option::value, "What it takes: \"N\", \"FILE\"; empty: nothing.")
      .def_ro("choices", &option::choices, "The words that it takes, where there is a list.")
      .def_ro("meaning", &option::meaning)
      .def_ro("is_shown", &option::is_shown, "Whether the command's own --help has it.")
      .def_ro("takes_several", &option::takes_several)
      .def_ro("separator", &option::separator, "What stands between several values, or None.");

  nb::class_<described_command>(module, "Command", "A command of the program.")
      .def_ro("about", &described_command::about)
      .def_ro("options", &described_command::options);

  nb::class_<answered>(module, "Answered", "What a command says.")
      .def_ro("texts", &answered::texts, "One for each of the formats.")
      .def_ro("remarks", &answered::remarks, "How files or this machine were understood.")
      .def_ro("problems", &answered::problems, "What was asked to hold, and does not.");

  module.def(
      "describe", &describe, nb::arg("command"), "The command's options, as its --help has them.");
  module.def("ask",
             &ask,
             nb::arg("command"),
             nb::arg("words"),
             nb::arg("formats"),
             nb::arg("width") = 100,
             "What the command answers to these words of a command line, in each of these formats: "
             "text, markdown, csv, json, html. Other threads run meanwhile. Raises "
             "gpuplan.PlanError where the program refuses.");
}
