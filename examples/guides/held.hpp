#pragma once

// The guides that the programs hold.

#include "guides/a6000_to_h100.hpp"
#include "guides/batch_sweep.hpp"
#include "guides/front_end.hpp"
#include "guides/gr00t_cluster.hpp"
#include "guides/sentence_bert.hpp"
#include "guides/vla_speedups.hpp"

namespace guides {

inline constexpr guide guide_000{
    "000", "gr00t_cluster", "GR00T fine-tuning on a shared Slurm cluster", [] {
      return gr00t_cluster::make_report();
    }};
inline constexpr guide guide_001{
    "001", "a6000_to_h100", "From A6000 to H100", [] { return a6000_to_h100::make_report(); }};
inline constexpr guide guide_002{
    "002", "vla_speedups", "VLA training speed-ups", [] { return vla_speedups::make_report(); }};
inline constexpr guide guide_003{
    "003", "sentence_bert", "Sentence-BERT on 8 GPUs", [] { return sentence_bert::make_report(); }};
inline constexpr guide guide_004{
    "004", "batch_sweep", "Benchmark sweeps", [] { return batch_sweep::make_report(); }};

}  // namespace guides
