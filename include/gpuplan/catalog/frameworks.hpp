#pragma once

// Frameworks, as far as memory and time tell them apart. Operators, orders and formats were read
// from their sources, and checked against recorded steps of the versions named. Their `costs` were
// fitted to published steps as device_efficiencies.hpp says; where no step of a framework was there
// to fit them to, they are those of its like, and say so.

#include <gpuplan/catalog/framework_parts.hpp>
#include <gpuplan/catalog/frameworks/encoders.hpp>
#include <gpuplan/catalog/frameworks/hugging_face.hpp>
#include <gpuplan/catalog/frameworks/hugging_face_composites.hpp>
#include <gpuplan/catalog/frameworks/hugging_face_decoders.hpp>
#include <gpuplan/catalog/frameworks/hugging_face_experts.hpp>
#include <gpuplan/catalog/frameworks/hugging_face_images.hpp>
#include <gpuplan/catalog/frameworks/hugging_face_mamba.hpp>
#include <gpuplan/catalog/frameworks/hugging_face_sequences.hpp>
#include <gpuplan/catalog/frameworks/lit_gpt.hpp>
#include <gpuplan/catalog/frameworks/megatron.hpp>
#include <gpuplan/catalog/frameworks/nanotron.hpp>
#include <gpuplan/catalog/frameworks/torch.hpp>
#include <gpuplan/catalog/frameworks/torchtitan.hpp>
#include <gpuplan/framework.hpp>

#include <array>
#include <cstddef>

namespace gpuplan::detail {

template <std::size_t... Sizes>
constexpr auto joined(const catalog::listed_framework (&... lists)[Sizes]) {
  std::array<catalog::listed_framework, (Sizes + ...)> all{};
  std::size_t count = 0;
  const auto append = [&](const auto& list) {
    for (const auto& one : list) all[count++] = one;
  };
  (append(lists), ...);
  return all;
}

}  // namespace gpuplan::detail

namespace gpuplan::catalog {

/// All of these, with the names by which people choose.
inline constexpr auto listed_frameworks = gpuplan::detail::joined(torch_frameworks,
                                                                  hugging_face_frameworks,
                                                                  mixture_frameworks,
                                                                  decoder_frameworks,
                                                                  state_space_frameworks,
                                                                  encoder_frameworks,
                                                                  hugging_face_composite_frameworks,
                                                                  image_frameworks,
                                                                  sequence_frameworks,
                                                                  lit_gpt_frameworks,
                                                                  torchtitan_frameworks,
                                                                  megatron_frameworks,
                                                                  nanotron_frameworks);

/// Likewise, alone; `frameworks` (implementations.hpp) are those that people choose among.
inline constexpr auto all_frameworks = [] {
  std::array<const framework*, listed_frameworks.size()> all{};
  for (std::size_t at = 0; at < all.size(); ++at) all[at] = listed_frameworks[at].software;
  return all;
}();

}  // namespace gpuplan::catalog
