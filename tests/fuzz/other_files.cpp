// Every other file that is read: configurations of models, clusters, Slurm's nodes, lists of
// prices, measurements of devices and of sweeps, snapshots of memory, traces of a profiler. The
// first byte says as which.

#include <gpuplan/io/clusters.hpp>
#include <gpuplan/io/hugging_face_config.hpp>
#include <gpuplan/io/measured_device.hpp>
#include <gpuplan/io/pickle.hpp>
#include <gpuplan/io/price_list.hpp>
#include <gpuplan/io/profiler_trace.hpp>
#include <gpuplan/io/slurm_nodes.hpp>
#include <gpuplan/io/sweep/rows.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/result.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace io = gpuplan::io;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 8) {
    case 0: {
      const io::hugging_face_config config = io::read_hugging_face_config(text);
      // What is read is a model that has parameters, or `validate` says why it can be none.
      if (config.shape) {
        const auto valid = validate(*config.shape);
        if (valid ? parameters(*config.shape).total() <= 0
                  : *gpuplan::failure_text(valid.why()).c_str() == '\0')
          std::abort();
      }
      if (!config.shape && config.reason.empty()) std::abort();
      break;
    }
    case 1: {
      const io::read_clusters clusters = io::read_clusters_of(text);
      if (!clusters && clusters.why.empty()) std::abort();
      break;
    }
    case 2:
      if (const auto record = io::read_measurement(text)) static_cast<void>(io::to_json(*record));
      break;
    case 3:
      static_cast<void>(io::read_pickle(text));
      break;
    case 4:
      static_cast<void>(io::read_sweep(text));
      break;
    case 6: {
      const io::read_slurm_nodes nodes = io::read_slurm_nodes_of(text);
      for (const io::slurm_nodes& each : nodes.groups)
        if (each.usable > each.nodes) std::abort();
      if (nodes.groups.empty() == static_cast<bool>(nodes)) std::abort();
      break;
    }
    case 7: {
      const io::read_prices prices = io::read_price_list(text);
      if (prices.prices.empty() == static_cast<bool>(prices)) std::abort();
      break;
    }
    default: {
      const io::parsed_profile profile = io::read_profiler_trace(text);
      if (profile && !(profile.step.host >= 0 && profile.step.idle <= profile.step.device))
        std::abort();
      break;
    }
  }
  return 0;
}
