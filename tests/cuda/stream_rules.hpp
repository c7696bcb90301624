#pragma once

// What the kernels of memory/streams.cuh leave in memory, by running their own bodies on the host.

#include <gpuplan/cuda/memory/streams.cuh>

#include <stand_in/stand_in.hpp>

#include <cstdint>
#include <functional>
#include <string>

namespace stream_rules {

namespace cuda = gpuplan::cuda;

/// The time of a launch, by its bytes: places of 16 bytes, times those that the body moves in each.
using seconds_of = std::function<double(const stand_in::launch&, double places)>;

/// Adds the rule of one body; `spoil` may overwrite what it left.
template <class Body>
void add(const char* name,
         const seconds_of& seconds = {},
         const std::function<void(const stand_in::launch&)>& spoil = {}) {
  stand_in::kernel_rule rule{.name = std::string("stream_kernel<gpuplan::cuda::") + name};
  if (seconds)
    rule.seconds = [=](const stand_in::launch& l) {
      return seconds(l, static_cast<double>(l.argument<long long>(1)));
    };
  rule.body = [=](const stand_in::launch& l) {
    for (unsigned block = 0; block < l.grid.x; ++block)
      for (unsigned thread = 0; thread < l.block.x; ++thread) {
        Body body = l.argument<Body>(0);
        cuda::run_share(
            body, cuda::share_of(block, thread, l.grid.x, l.block.x, l.argument<long long>(1)));
        body.finish();
      }
    if (spoil) spoil(l);
  };
  stand_in::current().kernels.push_back(rule);
}

/// The rules of the bodies whose time does not count.
inline void add_checks() {
  add<cuda::write_body>("write_body");
  add<cuda::check_body>("check_body");
  add<cuda::triad_write_body<float>>("triad_write_body<float>");
  add<cuda::triad_write_body<double>>("triad_write_body<double>");
  add<cuda::triad_check_body<float>>("triad_check_body<float>");
  add<cuda::triad_check_body<double>>("triad_check_body<double>");
}

}  // namespace stream_rules
