#pragma once

// How the rate of matrix products depends on their shape: measured point by point over a grid, as
// data for measured_device::surface.

#include <gpuplan/cuda/gemm.cuh>
#include <gpuplan/cuda/matmul.cuh>
#include <gpuplan/cuda/session.cuh>
#include <gpuplan/measured_device.hpp>
#include <gpuplan/precision.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gpuplan::cuda {

/// Every m with every n and every k. Of a layer's forward product m is the number of tokens, n and
/// k are its widths; the usual grid holds those of micro-batches from a few sentences to long
/// sequences, and of models from hundreds of millions to hundreds of billions of parameters.
struct surface_grid {
  std::vector<std::int64_t> m{64, 256, 1024, 4096, 16384};
  std::vector<std::int64_t> n{512, 2048, 8192, 32768};
  std::vector<std::int64_t> k{512, 2048, 8192, 32768};
};

/// The shapes of a grid, m first.
[[nodiscard]] inline std::vector<matmul_shape> shapes_of(const surface_grid& grid) {
  std::vector<matmul_shape> shapes;
  for (const std::int64_t m : grid.m)
    for (const std::int64_t n : grid.n)
      for (const std::int64_t k : grid.k) shapes.push_back({m, n, k});
  return shapes;
}

/// The shapes of products, each once, in their order.
[[nodiscard]] inline std::vector<matmul_shape> shapes_of(std::span<const model_matmul> products) {
  std::vector<matmul_shape> shapes;
  for (const model_matmul& one : products)
    if (std::find(shapes.begin(), shapes.end(), one.shape) == shapes.end())
      shapes.push_back(one.shape);
  return shapes;
}

/// How to measure the points of a surface. The L2 cache is flushed before each launch: in a
/// training step, other layers' data have passed through it since. The first point, which is the
/// largest, heats the device as `heat` says; it is still hot at those that follow.
struct surface_options {
  sampling_options sampling{
      .flush_l2 = true,
      .warm_up = {.window_s = 0.05, .cap_s = 2},
      .stop = {.spread = 0.01, .window = 32, .least_samples = 32, .least_s = 0.05, .cap_s = 3}};
  warm_up_options heat{};
  int proposals = 32;       // as gemm_options
  int timed_proposals = 8;  // likewise
};

/// A point that is missing.
struct missing_point {
  matmul_shape shape{};
  std::string why{};
};

/// The rates of forward products of one format. Points are in the order of the shapes asked for.
struct gemm_surface {
  number_format format{};
  std::vector<measured_point> points{};
  std::vector<missing_point> missing{};
};

/// Measures the products of these shapes by cuBLASLt, the largest first; each shape takes a second
/// or less, and is asked for once. What has no room, or no algorithm, is among `missing`. Throws as
/// measure_gemm. Without cuBLASLt all points are missing, since the own kernel's are no ceiling.
[[nodiscard]] inline gemm_surface measure_gemm_surface(session& s,
                                                       number_format format,
                                                       std::span<const matmul_shape> shapes,
                                                       const surface_options& options = {}) {
  std::vector<std::size_t> order(shapes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return flops(shapes[a]) > flops(shapes[b]);
  });
  gemm_options each{.sampling = options.sampling,
                    .burst = false,
                    .zeros = false,
                    .own_kernel = false,
                    .proposals = options.proposals,
                    .timed_proposals = options.timed_proposals,
                    .choice_s = 0};
  each.sampling.warm_up = options.heat;
  std::vector<gemm_result> results(shapes.size());
  for (const std::size_t at : order) {
    results[at] = measure_gemm(s, {.format = format, .shape = shapes[at]}, each);
    if (results[at].sustained) each.sampling.warm_up = options.sampling.warm_up;
  }
  gemm_surface surface{.format = format};
  for (gemm_result& one : results) {
    const matmul_shape& shape = one.matmul.shape;
    if (one.sustained)
      surface.points.push_back({.format = format, .shape = shape, .rate = one.sustained->rate});
    else
      surface.missing.push_back({shape, std::move(one.why_not)});
  }
  return surface;
}

}  // namespace gpuplan::cuda
