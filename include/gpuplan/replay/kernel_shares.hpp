#pragma once

// What kernels reach of a device, and what operators cost the host: the numbers of `replayed_time`.

#include <gpuplan/units.hpp>

#include <cstdint>

namespace gpuplan {

/// What a kernel of attention reaches. Formula: seconds = pairs x (products / rate + 1 /
/// exponentials) + bytes / bandwidth + tail; pairs of a query and a key are those of whole blocks
/// that a causal mask leaves, and at the least those of the longest block of queries on its SM.
struct attention_shares {
  double products = 0;       // of the peak of half formats; of TF32's likewise, not measured
  double exponentials = 0;   // of an SM in each clock: one for a pair; 0: none are counted
  std::int64_t block = 128;  // queries and keys that are computed together
  duration tail{};           // from the first SM that has nothing left to the last
};
/// Of a kernel's bandwidth, by what its elements are kept in.
struct format_shares {
  double half = 1;
  double single = 1;
};

/// What each kind of kernel reaches of a device. Shares are of the data sheet's dense peak and of
/// its bandwidth, at the highest clock, which may be above that of the peak. The defaults are an
/// H100's with PyTorch 2.11: single kernels of `h100_sxm5_80gb_kernels.csv` (benchmarks/results),
/// none of it fitted to layers or steps but for the power.
struct kernel_shares {
  double products = 0.963;     // of half formats, TF32 and fp8, where tiles fill the device
  double fp32_products = 0.8;  // of fp32
  // Of the product's rate, where rows of an operand or of the result are no multiple of 4 bytes,
  // forward and backward; or of none of 16.
  double odd_products = 0.111;
  double odd_gradients = 0.142;
  double unaligned_products = 0.25;
  attention_shares flash_forward{0.461, 14.8, 128, 11.4_us};
  attention_shares flash_backward{0.363, 7.07, 128, 13.2_us};
  attention_shares efficient_forward{0.226, 5.15, 64};
  attention_shares efficient_backward{0.163, 2.25, 64};
  double fp32_attention = 0.44;        // of the peak of fp32, all of the efficient kernel
  double elements = 0.873;             // of the bandwidth: what reads and writes what it is handed,
  double widening = 0.596;             // to formats of more bytes,
  double strided = 0.41;               // that do not lie in the same order in all operands
  format_shares updates{0.64, 0.787};  // of weights and states
  format_shares norms{0.458, 0.67};
  format_shares rms_norms{0.81, 0.881};
  format_shares norm_gradients{0.323, 0.406};
  format_shares softmaxes{0.665, 0.912};  // and losses
  format_shares softmax_gradients{0.456, 0.463};
  format_shares sums{0.53, 0.662};
  duration between{2_us};    // the end of a kernel and the next one's work, at the least
  duration reduction{3_us};  // more, where threads wait for one another,
  duration product{2.1_us};  // and before tensor cores have their operands
  // For each input of a patch, of convolutions without cuDNN: of one kernel, of 16 x 16 points with
  // three channels.
  duration unfolding{0.041_us};
  // Clocks fall until the board draws no more than its limit on average: fitted to the power of
  // steps; and at once where a kernel alone would draw more than this many times the limit.
  double burst = 1.3;
  // Of the time of a step's kernels, one standard deviation of its logarithm: what it makes of 80 %
  // holds 87 of 103 steps on an H100 and an H200 that the device bounds.
  double scatter = 0.06;
  power idle{120_W};
  // Of half formats at the highest clock, in proportion to it; of fp8 half, of TF32 twice as many.
  double joules_per_flop = 1.3e-12;
  double joules_per_byte = 105e-12;
};

/// What issuing an operator costs the host, Python included: of PyTorch 2.11 on three machines of
/// 16 virtual cores the one in the middle, of which the fastest took 19 and 18 us forward and
/// backward; a launch costs 4 to 6 us wherever it was measured, a checkpoint was fitted to steps.
struct host_costs {
  duration forward{30_us};
  duration backward{27_us};  // by autograd's thread
  duration optimizer{15_us};
  duration launch{5_us};        // each further kernel, product, copy or fill of an operator
  duration checkpoint{2.2_ms};  // states of random numbers and hooks of one that is computed again
  // Of all of these between machines, one standard deviation of the logarithm: steps that the host
  // bounds took 0.63 to 1.4 of what these say on the two that did not give them.
  double spread = 0.33;
};

}  // namespace gpuplan
