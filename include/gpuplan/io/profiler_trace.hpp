#pragma once

// Reads what PyTorch's profiler writes of a training step (`export_chrome_trace`). Needs
// nlohmann/json, as json.hpp does.

#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/json_depth.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gpuplan::io {

/// What operators do, as far as predictions tell them apart.
enum class operator_group {
  matmul,
  attention,  // fused
  activation,
  softmax,  // and losses
  sum,
  elements,       // all others that compute: norms, embeddings, copies and element-wise ones
  optimizer,      // whatever runs in its step
  communication,  // kernels of NCCL
  others
};
inline constexpr std::size_t operator_groups = 9;

[[nodiscard]] constexpr const char* text(operator_group group) {
  constexpr const char* names[] = {"matmul",
                                   "attention",
                                   "activation",
                                   "softmax, loss",
                                   "sum",
                                   "element-wise, norm, copy",
                                   "optimizer",
                                   "communication",
                                   "others"};
  return names[static_cast<std::size_t>(group)];
}

/// The sizes of `batch` products; which operand is transposed does not tell them apart.
struct matmul_sizes {
  std::int64_t rows = 0;  // no fewer than columns; 0: not known
  std::int64_t inner = 0;
  std::int64_t columns = 0;
  std::int64_t batch = 1;

  friend bool operator==(const matmul_sizes&, const matmul_sizes&) = default;
};
[[nodiscard]] inline matmul_sizes upright(matmul_sizes of) {
  if (of.rows < of.columns) std::swap(of.rows, of.columns);
  return of;
}

/// An operator of ATen that launches something; in a trace without kernels the innermost of its
/// group.
struct profiled_operator {
  operator_group group{};
  std::string name{};
  matmul_sizes sizes{};  // of a matmul, where shapes were recorded
  double begin = 0;      // s, on the host
  double seconds = 0;    // of its kernels, copies and fills; of the host where there are none
  std::int64_t launches = 0;
};

/// The last step of a trace.
struct profiled_step {
  std::vector<profiled_operator> operators{};  // in the host's order
  bool has_kernels = false;
  bool has_shapes = false;
  std::int64_t launches = 0;  // kernels, copies and fills
  double host = 0;            // s from the first operator's begin to the last one's end
  double device = 0;          // s from the first kernel's begin to the last one's end
  double idle = 0;            // s of these in which no kernel runs
  // Of the machine, as the driver calls them: "NVIDIA H100 80GB HBM3".
  std::vector<std::string> devices{};
};

struct parsed_profile {
  profiled_step step{};
  std::string why{};  // a sentence; empty: nothing is wrong

  [[nodiscard]] explicit operator bool() const { return why.empty(); }
};

namespace detail {

/// By the name of an operator of ATen; `others` launch nothing by themselves.
[[nodiscard]] inline operator_group group_of_operator(std::string_view name) {
  using enum operator_group;
  constexpr std::string_view prefix = "aten::";
  if (name.substr(0, prefix.size()) != prefix)
    return name.find("nccl") != std::string_view::npos ? communication : others;
  name.remove_prefix(prefix.size());
  struct named_group {
    std::string_view name;
    operator_group group;
  };
  static constexpr named_group exact[] = {{"mm", matmul},
                                          {"addmm", matmul},
                                          {"bmm", matmul},
                                          {"baddbmm", matmul},
                                          {"_scaled_mm", matmul},
                                          {"addbmm", matmul},
                                          {"gelu", activation},
                                          {"silu", activation},
                                          {"relu", activation},
                                          {"tanh", activation},
                                          {"sigmoid", activation},
                                          {"relu_", activation},
                                          {"threshold_backward", activation},
                                          {"_softmax", softmax},
                                          {"_log_softmax", softmax},
                                          {"_softmax_backward_data", softmax},
                                          {"_log_softmax_backward_data", softmax},
                                          {"nll_loss_forward", softmax},
                                          {"nll_loss_backward", softmax},
                                          {"logsumexp", softmax},
                                          {"sum", sum},
                                          {"mean", sum},
                                          {"linalg_vector_norm", sum},
                                          {"amax", sum}};
  for (const named_group& one : exact)
    if (name == one.name) return one.group;
  for (const std::string_view one :
       {"gelu_backward", "silu_backward", "tanh_backward", "sigmoid_backward"})
    if (name == one) return activation;
  for (const std::string_view one : {"_flash_attention_",
                                     "_efficient_attention_",
                                     "_cudnn_attention_",
                                     // older ones launch by these
                                     "_scaled_dot_product_flash_attention",
                                     "_scaled_dot_product_efficient_attention",
                                     "_scaled_dot_product_cudnn_attention"})
    if (name.substr(0, one.size()) == one) return attention;
  // What computes element by element, gathers, scatters, normalises, copies or fills.
  for (const std::string_view one : {"add",        "mul",
                                     "sub",        "div",
                                     "pow",        "rsqrt",
                                     "sqrt",       "neg",
                                     "exp",        "log",
                                     "where",      "lerp_",
                                     "addcmul",    "addcdiv",
                                     "native_",    "_fused_rms",
                                     "_foreach_",  "_fused_",
                                     "bernoulli_", "masked_",
                                     "copy_",      "cat",
                                     "fill_",      "zero_",
                                     "embedding",  "index",
                                     "gather",     "scatter",
                                     "tril",       "triu",
                                     "arange",     "cos",
                                     "sin",        "eq",
                                     "ne",         "lt",
                                     "le",         "gt",
                                     "ge",         "bitwise_",
                                     "isneginf",   "clamp",
                                     "uniform_",   "normal_",
                                     "random_",    "_local_scalar_dense",
                                     "cumsum",     "roll",
                                     "reciprocal", "rsub",
                                     "abs",        "maximum",
                                     "minimum",    "_amp_"}) {
    const bool is_whole = name == one || (name.size() == one.size() + 1 && name.back() == '_' &&
                                          name.substr(0, one.size()) == one);
    const bool is_prefix = one.back() == '_' || one == "embedding" || one == "index" ||
                           one == "scatter" || one == "addcmul" || one == "addcdiv" ||
                           one == "_fused_rms" || one == "gather";
    if (is_whole || (is_prefix && name.substr(0, one.size()) == one)) return elements;
  }
  return others;
}

class profile_reader {
 public:
  /// One event of the trace.
  void take(const nlohmann::json& event) {
    ++events_;
    const std::string kind = words(event, "ph");
    if (kind != "X") return;
    const std::string cat = words(event, "cat");
    const bool is_kernel = cat == "kernel" || cat == "gpu_memcpy" || cat == "gpu_memset";
    const bool is_runtime = cat == "cuda_runtime" || cat == "cuda_driver";
    const bool is_range = cat == "user_annotation";
    if (!is_kernel && !is_runtime && !is_range && cat != "cpu_op") return;
    timed one{.name = words(event, "name"), .thread = number(event, "tid")};
    const bool is_step = is_range && one.name.rfind("ProfilerStep#", 0) == 0;
    if (is_range && !is_step && one.name.rfind("Optimizer.step", 0) != 0) return;
    // Of calls the ids alone count.
    if (!is_runtime) {
      one.begin = seconds(event, "ts", -most_of_clock, most_of_clock);
      one.seconds = seconds(event, "dur", 0, year);
    }
    const auto args = event.find("args");
    if (args != event.end() && args->is_object()) {
      one.id = whole(*args, "External id");
      one.correlation = whole(*args, "correlation");
      if (cat == "cpu_op") one.sizes = sizes_of(one.name, *args);
      has_shapes_ = has_shapes_ || args->contains("Input Dims");
    }
    (is_kernel    ? kernels_
     : is_runtime ? calls_
     : is_step    ? steps_
     : is_range   ? updates_
                  : operators_)
        .push_back(std::move(one));
  }

  [[nodiscard]] parsed_profile finished() {
    if (!why_.empty()) return {.why = why_};
    if (operators_.empty())
      return {.why =
                  "it has no operators (events of category cpu_op): profile a step with "
                  "activities CPU and CUDA"};
    keep_last_step();
    parsed_profile read;
    profiled_step& step = read.step;
    step.has_kernels = !kernels_.empty();
    step.has_shapes = has_shapes_;
    if (operators_.empty()) return {.why = "its last step has no operators"};
    std::sort(updates_.begin(), updates_.end(), [](const timed& a, const timed& b) {
      return a.begin < b.begin;
    });
    nest();
    step.has_kernels ? give_kernels(step) : take_innermost(step);
    if (step.has_kernels && step.launches == 0)
      return {.why =
                  "no kernel has the External id of an operator of its last step, or the "
                  "correlation of a call that has"};
    std::sort(
        step.operators.begin(),
        step.operators.end(),
        [](const profiled_operator& a, const profiled_operator& b) { return a.begin < b.begin; });
    double first = operators_.front().begin;
    double last = first;
    for (const timed& one : operators_) {
      first = std::min(first, one.begin);
      last = std::max(last, one.end());
    }
    step.host = last - first;
    return read;
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  static constexpr double year = 365 * 86'400.0;  // s
  static constexpr double most_of_clock = 1e11;   // s
  struct timed {
    std::string name{};
    double begin = 0;
    double seconds = 0;
    double thread = 0;
    std::int64_t id = -1;
    std::int64_t correlation = -1;
    matmul_sizes sizes{};
    std::size_t within = none;
    operator_group group = operator_group::others;
    bool is_outer = false;  // of another operator of a group
    bool is_part = false;   // of a matmul or attention

    [[nodiscard]] double end() const { return begin + seconds; }
  };

  static std::string words(const nlohmann::json& of, const char* name) {
    const auto found = of.find(name);
    return found != of.end() && found->is_string() ? found->get<std::string>() : std::string();
  }
  static double number(const nlohmann::json& of, const char* name) {
    const auto found = of.find(name);
    return found != of.end() && found->is_number() ? found->get<double>() : 0;
  }
  // Of an event that says it in microseconds; keeps what is first wrong.
  double seconds(const nlohmann::json& event, const char* name, double least, double most) {
    const auto found = event.find(name);
    if (found == event.end()) return 0;
    const double given = found->is_number() ? found->get<double>() / 1e6 : most + 1;
    if (given >= least && given <= most) return given;
    if (why_.empty())
      why_ = "event " + std::to_string(events_) + ", " + printable(words(event, "name")) + ": " +
             name + " is " +
             (found->is_number()   ? figures(1e6 * given)
              : found->is_string() ? '"' + printable(found->get<std::string>()) + '"'
                                   : std::string(found->type_name())) +
             "; a number of microseconds from " + figures(1e6 * least) + " to " +
             figures(1e6 * most) + " is taken";
    return 0;
  }
  static std::string figures(double number) {
    char text[32];
    std::snprintf(text, sizeof text, "%.15g", number);
    return text;
  }
  static std::int64_t whole(const nlohmann::json& of, const char* name) {
    const double found = of.contains(name) && of[name].is_number() ? number(of, name) : -1;
    return found >= 0 && found < 9e15 ? static_cast<std::int64_t>(found) : -1;
  }
  // Of its two matrices: [[m, k], [k, n]], behind a bias in addmm and baddbmm.
  static matmul_sizes sizes_of(const std::string& name, const nlohmann::json& args) {
    const auto dims = args.find("Input Dims");
    if (dims == args.end() || !dims->is_array() ||
        group_of_operator(name) != operator_group::matmul)
      return {};
    const bool has_bias =
        name.find("::add") != std::string::npos || name.find("::badd") != std::string::npos;
    const std::size_t first = has_bias ? 1 : 0;
    if (dims->size() < first + 2) return {};
    std::array<std::vector<std::int64_t>, 2> sizes;
    for (std::size_t at = 0; at < 2; ++at) {
      const nlohmann::json& given = (*dims)[first + at];
      if (!given.is_array() || given.size() < 2 || given.size() > 3) return {};
      for (const nlohmann::json& size : given) {
        if (!size.is_number_integer()) return {};
        const double value = size.get<double>();
        if (!(value >= 0 && value < 9e15)) return {};
        sizes[at].push_back(static_cast<std::int64_t>(value));
      }
    }
    if (sizes[0].size() != sizes[1].size()) return {};
    const bool is_batched = sizes[0].size() == 3;
    const std::size_t row = is_batched ? 1 : 0;
    return upright({.rows = sizes[0][row],
                    .inner = sizes[0][row + 1],
                    .columns = sizes[1][row + 1],
                    .batch = is_batched ? sizes[0][0] : 1});
  }

  // Of steps that the profiler marks (`prof.step()`), the last one that has operators.
  void keep_last_step() {
    std::sort(operators_.begin(), operators_.end(), [](const timed& a, const timed& b) {
      return a.begin < b.begin;
    });
    const timed* last = nullptr;
    for (const timed& one : steps_) {
      const auto first = first_from(one.begin);
      const bool has_operators = first != operators_.end() && first->begin < one.end();
      if (has_operators && (last == nullptr || one.begin > last->begin)) last = &one;
    }
    if (last == nullptr) return;
    operators_.erase(first_from(last->end()), operators_.end());
    operators_.erase(operators_.begin(), first_from(last->begin));
  }
  std::vector<timed>::iterator first_from(double time) {
    return std::lower_bound(
        operators_.begin(), operators_.end(), time, [](const timed& one, double begin) {
          return one.begin < begin;
        });
  }

  // In the order of threads and of time, so that each is behind the one that it is within.
  void nest() {
    std::sort(operators_.begin(), operators_.end(), [](const timed& a, const timed& b) {
      if (a.thread != b.thread) return a.thread < b.thread;
      return a.begin != b.begin ? a.begin < b.begin : a.seconds > b.seconds;
    });
    std::vector<std::size_t> open;
    for (std::size_t at = 0; at < operators_.size(); ++at) {
      timed& one = operators_[at];
      while (!open.empty() && (operators_[open.back()].thread != one.thread ||
                               operators_[open.back()].end() <= one.begin))
        open.pop_back();
      if (!open.empty()) one.within = open.back();
      open.push_back(at);
      one.group = group_of_operator(one.name);
    }
    const auto mark_outer = [&](const timed& one) {
      for (std::size_t outer = one.within; outer != none && !operators_[outer].is_outer;
           outer = operators_[outer].within)
        operators_[outer].is_outer = true;
    };
    for (const timed& one : operators_)
      if (is_large(one.group)) mark_outer(one);
    // A matmul or attention may copy within: that is its part.
    for (timed& one : operators_) {
      if (one.within == none) continue;
      const timed& outer = operators_[one.within];
      one.is_part = outer.is_part || (is_large(outer.group) && !outer.is_outer);
    }
    for (const timed& one : operators_)
      if (one.group != operator_group::others && !is_large(one.group) && !one.is_part)
        mark_outer(one);
  }
  static bool is_large(operator_group group) {
    return group == operator_group::matmul || group == operator_group::attention;
  }
  [[nodiscard]] operator_group group_of(const timed& one) const {
    const auto behind = std::upper_bound(
        updates_.begin(), updates_.end(), one.begin, [](double begin, const timed& update) {
          return begin < update.begin;
        });
    const bool updates = behind != updates_.begin() && one.begin < std::prev(behind)->end();
    return updates ? operator_group::optimizer : one.group;
  }
  [[nodiscard]] profiled_operator as_operator(const timed& one) const {
    return {.group = group_of(one), .name = one.name, .sizes = one.sizes, .begin = one.begin};
  }

  void take_innermost(profiled_step& step) const {
    for (const timed& one : operators_) {
      if (one.is_outer || one.is_part || one.group == operator_group::others) continue;
      profiled_operator made = as_operator(one);
      made.seconds = one.seconds;
      step.operators.push_back(std::move(made));
    }
  }
  // To the operator of its id; that of a kernel, or of the call that launched it.
  void give_kernels(profiled_step& step) {
    std::unordered_map<std::int64_t, std::size_t> by_id;
    for (std::size_t at = 0; at < operators_.size(); ++at)
      if (operators_[at].id >= 0) by_id.emplace(operators_[at].id, at);
    std::unordered_map<std::int64_t, std::int64_t> id_of_call;
    for (const timed& call : calls_)
      if (call.correlation >= 0 && call.id >= 0) id_of_call.emplace(call.correlation, call.id);
    std::sort(kernels_.begin(), kernels_.end(), [](const timed& a, const timed& b) {
      return a.begin < b.begin;
    });
    std::unordered_map<std::size_t, std::size_t> places;
    double first = 0;
    double done = 0;
    for (const timed& kernel : kernels_) {
      std::int64_t id = kernel.id;
      if (const auto call = id_of_call.find(kernel.correlation);
          by_id.count(id) == 0 && call != id_of_call.end())
        id = call->second;
      const auto found = by_id.find(id);
      if (found == by_id.end()) continue;  // of another step
      if (step.launches == 0) first = done = kernel.begin;
      if (kernel.begin > done) step.idle += kernel.begin - done;
      done = std::max(done, kernel.end());
      ++step.launches;
      const auto [place, is_new] = places.emplace(found->second, step.operators.size());
      if (is_new) step.operators.push_back(as_operator(operators_[found->second]));
      profiled_operator& of = step.operators[place->second];
      if (kernel.name.rfind("nccl", 0) == 0) of.group = operator_group::communication;
      of.seconds += kernel.seconds;
      ++of.launches;
    }
    step.device = done - first;
  }

  std::vector<timed> operators_{};
  std::vector<timed> kernels_{};
  std::vector<timed> calls_{};
  std::vector<timed> steps_{};
  std::vector<timed> updates_{};  // by optimizers
  bool has_shapes_ = false;
  std::int64_t events_ = 0;
  std::string why_{};
};

}  // namespace detail

/// Reads the last step of a trace in JSON: the one of the last `ProfilerStep`, or all there is
/// without one. Kernels belong to the operator with their `External id`, or with that of the call
/// of their `correlation`; other events are passed over. Tried with PyTorch 2.15: traces of its
/// CPU, and of its CUDA code on a device that runs nothing, whose profiler saw no kernels. Refuses,
/// with a sentence, what is no JSON, nests too deeply, is compressed, has no operators, kernels of
/// none of them, or an event at a time that cannot be.
[[nodiscard]] inline parsed_profile read_profiler_trace(std::string_view bytes) {
  if (bytes.substr(0, 2) == "\x1f\x8b")
    return {.why = "it is compressed (gzip); decompress it first: gunzip -k FILE"};
  if (is_too_deep(bytes)) return {.why = "it nests lists and objects too deeply to be a trace"};
  detail::profile_reader reader;
  bool has_events = false;
  std::string in;           // the member of the document that is read
  int depth_of_events = 2;  // 1 where the document is a list of them
  const auto take = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    using kind = nlohmann::json::parse_event_t;
    if (event == kind::key && depth == 1) in = parsed.get<std::string>();
    if (event == kind::array_start && depth == 0) {
      in = "traceEvents";
      depth_of_events = 1;
    }
    const bool is_list = event == kind::array_start && depth == depth_of_events - 1;
    if (is_list && in == "traceEvents") has_events = true;
    const bool is_event =
        event == kind::object_end && in == "traceEvents" && depth == depth_of_events;
    if (!is_event) return true;
    reader.take(parsed);
    return false;
  };
  const nlohmann::json document = nlohmann::json::parse(bytes, take, false);
  if (document.is_discarded()) return {.why = "it is not whole JSON"};
  if (!has_events) return {.why = "it has no traceEvents: not a trace of PyTorch's profiler"};
  parsed_profile read = reader.finished();
  if (document.is_object())
    if (const auto found = document.find("deviceProperties"); found != document.end())
      for (const nlohmann::json& device : *found)
        if (device.is_object() && device.contains("name") && device["name"].is_string())
          read.step.devices.push_back(device["name"].get<std::string>());
  return read;
}

}  // namespace gpuplan::io
