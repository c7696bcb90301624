#include "kernels.hpp"

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/replay/device_kernels.hpp>
#include <gpuplan/replay/step_time.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace accuracy {
namespace {

using gpuplan::eager::device_work;
using gpuplan::eager::element;
using gpuplan::eager::kernel_kind;

std::optional<element> element_of(std::string_view format) {
  if (format == "bf16") return element::bf16;
  if (format == "fp16") return element::fp16;
  if (format == "fp32" || format == "tf32") return element::fp32;
  if (format == "fp8") return element::fp8;
  return std::nullopt;
}

std::int64_t at_least_1(const row& source, std::string_view column) {
  const std::int64_t found = source.integer_or(column, 0);
  if (found < 1) source.fail(column, "is not at least 1");
  return found;
}

kernel product_of(const row& source, element format) {
  const std::string_view op = source.text("op");
  return {.work = {.kernels = 0,
                   .products = 1,
                   .product = {.rows = at_least_1(source, "m"),
                               .inner = at_least_1(source, "k"),
                               .columns = at_least_1(source, "n"),
                               .batch = at_least_1(source, "batch")},
                   .operands = format,
                   .input = format},
          .is_backward = op == "nn" || op == "nt"};
}

kernel attention_of(const row& source, element format) {
  return attention_kernel_of({.batch = at_least_1(source, "batch"),
                              .tokens = at_least_1(source, "seq"),
                              .heads = at_least_1(source, "heads"),
                              .kv_heads = at_least_1(source, "kv_heads"),
                              .head_dim = at_least_1(source, "head_dim")},
                             format,
                             source.text("kernel") == "flash",
                             source.text("op") == "backward");
}

// Operators whose work a step's operators have.
std::optional<kernel> elements_of(const row& source, element format) {
  const std::string_view op = source.text("op");
  kernel found{.work = {.operands = format, .input = format}};
  device_work& work = found.work;
  const auto bytes = source.number("bytes");
  if (!bytes) return std::nullopt;
  work.bytes = static_cast<std::int64_t>(*bytes);
  const bool is_gradient = op.ends_with("_backward");
  found.is_backward = is_gradient;
  if (op == "layer_norm" || op == "rms_norm" || op == "layer_norm_backward") {
    work.kind = op == "rms_norm" ? kernel_kind::rms_norms : kernel_kind::norms;
    work.kernels = is_gradient ? 2 : 1;
  } else if (op == "softmax" || op == "softmax_backward") {
    work.kind = kernel_kind::softmaxes;
  } else if (op == "sum_rows") {
    work.kind = kernel_kind::sums;
  } else if (op == "gelu" || op == "silu" || op == "gelu_backward") {
    work.kind = kernel_kind::functions;
  } else if (op == "cast") {
    work.operands = gpuplan::eager::is_half(format) ? element::fp32 : element::bf16;
  } else if (op != "copy" && op != "add" && op != "add_" && op != "mul_scalar" &&
             op != "embedding" && op != "dropout") {
    return std::nullopt;
  }
  return found;
}

}  // namespace

kernel attention_kernel_of(const attention_size& size,
                           element format,
                           bool is_flash,
                           bool is_backward) {
  const std::int64_t of_a_head =
      size.batch * size.tokens * size.head_dim * gpuplan::eager::bytes_of(format);
  device_work work{.product = {size.tokens, size.head_dim, size.tokens, size.batch * size.heads},
                   .operands = format,
                   .input = format,
                   .is_flash = is_flash};
  work.attention_flops = (is_backward ? 5 : 2) * work.product.flops();
  // Forward queries and results beside keys and values; backward these, and the gradient of each.
  work.bytes = (is_backward ? 4 : 2) * of_a_head * (size.heads + size.kv_heads);
  if (is_backward) {  // as the operators are counted: see flash_gradients and efficient_backward
    work.kernels = is_flash ? 3 : 1;
    if (size.kv_heads != size.heads) work.kernels += 2;
  }
  return {work, is_backward};
}

double kernel_seconds(const kernel& one,
                      const gpuplan::gpu_spec& gpu,
                      const gpuplan::kernel_shares& shares,
                      gpuplan::number_format format,
                      bool is_causal) {
  gpuplan::training_setup setup{.model = gpuplan::catalog::gpt2};
  if (!is_causal) setup.model.kind = gpuplan::model_kind::encoder;
  setup.precision.compute = format;
  gpuplan::eager::kernel_times times(setup, {.gpu = gpu}, shares, gpuplan::host_costs{});
  times.is_on = true;
  times.execute(one.work, one.is_backward);
  return times.items[0].at(1);
}

prediction kernel_time_of(const row& source) {
  const auto gpu = gpuplan::catalog::find_gpu(source.text("gpu"));
  if (!gpu) return std::string(gpuplan::failure_text(gpu.why()).c_str());
  if (source.integer_or("sustained", 0) != 0) return std::string("it ran until the clock fell");
  const auto format = element_of(source.text("format"));
  if (!format) return std::string("no operator of a replayed step has this format");
  const std::string_view kind = source.text("kind");
  std::optional<kernel> found;
  if (kind == "product") found = product_of(source, *format);
  if (kind == "attention" && source.text("kernel") != "cudnn")
    found = attention_of(source, *format);
  if (kind == "elements" && *format != element::fp8) found = elements_of(source, *format);
  if (!found) return std::string("no replayed step has such a kernel");

  using gpuplan::number_format;
  return number(kernel_seconds(*found,
                               *gpu,
                               gpuplan::kernel_shares_of(*gpu),
                               source.text("format") == "tf32"   ? number_format::tf32
                               : source.text("format") == "fp16" ? number_format::fp16
                                                                 : number_format::bf16,
                               source.integer_or("causal", 1) != 0));
}

}  // namespace accuracy
