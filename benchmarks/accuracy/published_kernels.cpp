#include "published_kernels.hpp"

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/communication.hpp>
#include <gpuplan/replay/device_kernels.hpp>
#include <gpuplan/replay/step_time.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kernels.hpp"

namespace accuracy {
namespace {

using namespace gpuplan::literals;
using gpuplan::gpu_spec;
using gpuplan::number_format;
using gpuplan::eager::element;

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::optional<number_format> format_of(std::string_view name) {
  for (const number_format each : {number_format::bf16,
                                   number_format::fp16,
                                   number_format::fp8,
                                   number_format::tf32,
                                   number_format::fp32})
    if (name == text(each)) return each;
  return std::nullopt;
}

// Rows say TFLOP/s, TB/s, GB/s or "GB/s busbw".
double in_unit(double per_second, std::string_view unit) {
  return per_second / (unit.starts_with('T') ? 1e12 : 1e9);
}

double product_seconds(const gpu_spec& gpu,
                       const gpuplan::kernel_shares& shares,
                       number_format format,
                       const gpuplan::eager::matrix_product& size) {
  const element operands = format == number_format::bf16   ? element::bf16
                           : format == number_format::fp16 ? element::fp16
                           : format == number_format::fp8  ? element::fp8
                                                           : element::fp32;
  return kernel_seconds(
      {{.kernels = 0, .products = 1, .product = size, .operands = operands, .input = operands}},
      gpu,
      shares,
      format);
}

prediction rate_of_products(const row& source, const gpu_spec& gpu) {
  const auto format = format_of(source.text("dtype"));
  if (!format) return std::string("the row's format is no format of products");
  if (!peak(gpu, *format)) return std::string("the device has no peak in this format");
  if (has(source.text("notes"), "casting included"))
    return std::string("the time holds casts, of which the row does not say how many");
  const std::int64_t m = source.integer_or("m", 0);
  const std::int64_t n = source.integer_or("n", 0);
  const std::int64_t k = source.integer_or("k", 0);
  if (m < 1 || n < 1 || k < 1) return std::string("the row has no size of the product");
  // After thousands of products a device draws no more than its limit at any moment.
  gpuplan::kernel_shares shares = gpuplan::kernel_shares_of(gpu);
  if (has(source.text("notes"), "warm-up")) shares.burst = 1;
  const auto takes = [&](std::int64_t rows, std::int64_t inner, std::int64_t columns) {
    return product_seconds(
        gpu, shares, *format, {.rows = rows, .inner = inner, .columns = columns});
  };
  // what is a row to PyTorch is a column to the programs of BLAS's own
  double seconds = has(source.text("notes"), "BLASLt /") ? takes(n, k, m) : takes(m, k, n);
  double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  if (source.text("kind") == "linear_fwdbwd") {
    seconds += takes(m, n, k) + takes(k, m, n);
    flops *= 3;
  }
  return number(in_unit(flops / seconds, source.text("unit")));
}

prediction rate_of_attention(const row& source, const gpu_spec& gpu) {
  attention_size size{.batch = source.integer_or("batch", 1),
                      .tokens = source.integer_or("seq", 0),
                      .head_dim = source.integer_or("head_dim", 0)};
  if (size.tokens < 1 || size.head_dim < 1) return std::string("the row has no size of a head");
  // flash-attention's own benchmark is of 2,048 numbers a token
  size.heads = size.kv_heads = source.integer_or("heads", 2048 / size.head_dim);
  const bool is_causal = source.flag("causal");
  const kernel one = attention_kernel_of(size, element::fp16, true, false);
  const double flops = static_cast<double>(one.work.attention_flops) * (is_causal ? 0.5 : 1);
  const double seconds =
      kernel_seconds(one, gpu, gpuplan::kernel_shares_of(gpu), number_format::fp16, is_causal);
  return number(in_unit(flops / seconds, source.text("unit")));
}

prediction rate_of_copy(const row& source, const gpu_spec& gpu) {
  const std::string_view notes = source.text("notes");
  if (has(notes, "HBM"))
    return number(in_unit(gpu.memory_bandwidth.value() * gpuplan::kernel_shares_of(gpu).elements,
                          source.text("unit")));
  if (!has(notes, "Host")) return std::string("what its rate adds up is not known");
  gpuplan::cluster on{.gpu = gpu};
  on.gpu.peers = {};  // by PCIe
  const auto links = gpuplan::interconnect_of(on);
  if (!links) return std::string(gpuplan::failure_text(links.why()).c_str());
  return number(
      in_unit(copy_bandwidth(links->inside_node, links->inside).value(), source.text("unit")));
}

prediction rate_of_collective(const row& source, const gpu_spec& gpu, gpuplan::collective what) {
  const auto message = source.number("bytes");
  if (!message) return std::string("the row has no size of a message");
  const std::int64_t ranks = source.integer_or("ranks", 0);
  if (ranks < 2) return std::string("the row does not say how many ranks");
  if (!has(source.text("notes"), "one node") && ranks > 8)
    return std::string("the row does not say how fast the network is");
  const auto links = gpuplan::interconnect_of({.gpu = gpu, .gpus_per_node = ranks});
  if (!links) return std::string(gpuplan::failure_text(links.why()).c_str());
  const gpuplan::bytes size = gpuplan::bytes::from_value(*message);
  const gpuplan::device_group group{ranks, ranks};
  const auto by = has(source.text("notes"), "Ring") ? gpuplan::collective_algorithm::ring
                                                    : gpuplan::collective_algorithm::fastest;
  return number(in_unit(
      bus_bandwidth(what, size, group, collective_time(what, size, group, *links, by)).value(),
      source.text("unit")));
}

// A layer of transformers in fp16 whose attention writes its scores, in FLOPs as
// 24 b s h^2 + 4 b s^2 h; forward and backward take three times as many.
prediction rate_of_layer(const row& source, const gpu_spec& gpu) {
  const bool is_bert = has(source.text("kind"), "bert_large");
  if (!is_bert && !has(source.text("kind"), "gpt2_medium"))
    return std::string("the row's layer is of no model that is known");
  gpuplan::training_setup setup{
      .model = is_bert ? gpuplan::catalog::bert_large_uncased : gpuplan::catalog::gpt2_medium,
      .sequence_length = source.integer_or("seq", 0),
      .precision = {.weights = number_format::fp16, .compute = number_format::fp16},
      .framework =
          is_bert ? gpuplan::catalog::hugging_face_bert : gpuplan::catalog::hugging_face_gpt2};
  setup.attention = gpuplan::attention_kernel::eager;
  setup.model.num_hidden_layers = 2;
  if (is_bert) {  // of a loss that a step needs, and no layer
    setup.model.head = gpuplan::head_kind::classifier;
    setup.model.num_classes = 2;
  }
  const gpuplan::replayed_time time{
      .setup = setup, .on = {.gpu = gpu}, .kernels = gpuplan::kernel_shares_of(gpu)};
  const std::int64_t sequences = source.integer_or("batch", 0);
  const auto layer = time.layer({.micro_batch = sequences}, 1);
  if (!layer) return std::string(gpuplan::failure_text(layer.why()).c_str());
  const bool both = has(source.text("kind"), "fwdbwd");
  const double width = static_cast<double>(setup.model.hidden_size);
  const double tokens = static_cast<double>(setup.sequence_length);
  const double flops = (both ? 3.0 : 1.0) * static_cast<double>(sequences) *
                       (24 * tokens * width * width + 4 * tokens * tokens * width);
  const gpuplan::duration seconds = layer->forward + (both ? layer->backward : 0_s);
  return number(in_unit(flops / seconds.value(), source.text("unit")));
}

}  // namespace

prediction published_rate_of(const row& source) {
  const auto gpu = gpuplan::catalog::find_gpu(source.text("gpu"));
  if (!gpu) return std::string(gpuplan::failure_text(gpu.why()).c_str());
  const std::string_view kind = source.text("kind");
  if (kind == "gemm" || kind == "linear_fwdbwd") return rate_of_products(source, *gpu);
  if (kind == "attention_fwd") return rate_of_attention(source, *gpu);
  if (kind == "memcpy") return rate_of_copy(source, *gpu);
  if (kind.starts_with("layer_")) return rate_of_layer(source, *gpu);
  using gpuplan::collective;
  if (kind == "allreduce") return rate_of_collective(source, *gpu, collective::all_reduce);
  if (kind == "allgather") return rate_of_collective(source, *gpu, collective::all_gather);
  if (kind == "reducescatter") return rate_of_collective(source, *gpu, collective::reduce_scatter);
  return std::string("the library times no such kernel");
}

}  // namespace accuracy
