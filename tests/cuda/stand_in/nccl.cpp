// NCCL's calls.

#include "nccl.hpp"

#include "world.hpp"

#include <algorithm>
#include <memory>

// One rank; the ranks that were made together share what they are asked for.
struct ncclComm {
  struct request {
    const void* from;
    void* to;
    std::size_t count;
    ncclDataType_t type;
    CUstream_st* on;
  };
  struct ring {
    std::vector<ncclComm*> ranks;
    std::vector<std::optional<request>> asked;  // of each rank
  };
  int device = 0;
  int rank = 0;
  std::shared_ptr<ring> of;
};

namespace stand_in {
namespace {

nccl_script& it() {
  static nccl_script one = [] {
    at_reset([] { it() = {}; });
    return nccl_script{};
  }();
  return one;
}

ncclResult_t enter_nccl(const char* function) { return static_cast<ncclResult_t>(enter(function)); }

template <class T>
void sum(const std::vector<std::optional<ncclComm::request>>& asked) {
  const std::size_t count = std::min(asked.front()->count, current().touched_bytes / sizeof(T));
  std::vector<T> total(count, T{});
  for (const auto& r : asked)
    for (std::size_t i = 0; i < count; ++i)
      total[i] = static_cast<T>(total[i] + static_cast<const T*>(r->from)[i]);
  for (const auto& r : asked) std::copy(total.begin(), total.end(), static_cast<T*>(r->to));
}

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 4;
  }
}

// Runs what all ranks have asked for: they start together, and end together.
ncclResult_t run(ncclComm::ring& ring) {
  const std::size_t bytes = ring.asked.front()->count * size_of(ring.asked.front()->type);
  const auto ranks = static_cast<int>(ring.ranks.size());
  const double seconds = it().all_reduce_s ? it().all_reduce_s(bytes, ranks) : 100e-6;
  double start_s = now_s();
  for (const auto& r : ring.asked) start_s = std::max(start_s, r->on->ready_s);
  for (const auto& r : ring.asked) r->on->ready_s = start_s + seconds;
  if (it().sums) {
    switch (ring.asked.front()->type) {
      case ncclInt32:
        sum<std::int32_t>(ring.asked);
        break;
      case ncclUint32:
        sum<std::uint32_t>(ring.asked);
        break;
      case ncclInt64:
        sum<std::int64_t>(ring.asked);
        break;
      case ncclFloat32:
        sum<float>(ring.asked);
        break;
      case ncclFloat64:
        sum<double>(ring.asked);
        break;
      default:
        return ncclInvalidArgument;
    }
  }
  for (auto& r : ring.asked) r.reset();
  return ncclSuccess;
}

}  // namespace

nccl_script& current_nccl() { return it(); }

}  // namespace stand_in

using namespace stand_in;

extern "C" {

const char* ncclGetErrorString(ncclResult_t) { return "an error of the stand-in"; }

ncclResult_t ncclGetVersion(int* version) {
  if (const ncclResult_t refused = enter_nccl(__func__); refused != ncclSuccess) return refused;
  *version = it().version;
  return ncclSuccess;
}

ncclResult_t ncclCommInitAll(ncclComm_t* made_here, int count, const int* devices) {
  if (const ncclResult_t refused = enter_nccl(__func__); refused != ncclSuccess) return refused;
  if (count < 1 || static_cast<std::size_t>(count) > current().devices.size())
    return ncclInvalidArgument;
  const auto ring = std::make_shared<ncclComm::ring>();
  ring->asked.resize(static_cast<std::size_t>(count));
  for (int rank = 0; rank < count; ++rank) {
    made_here[rank] = new ncclComm{devices == nullptr ? rank : devices[rank], rank, ring};
    ring->ranks.push_back(made_here[rank]);
    ++made().others[__func__];
  }
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  const ncclResult_t status = enter_nccl(__func__);
  delete communicator;
  --made().others["ncclCommInitAll"];
  return status;
}

ncclResult_t ncclGroupStart() { return enter_nccl(__func__); }
ncclResult_t ncclGroupEnd() { return enter_nccl(__func__); }

ncclResult_t ncclAllReduce(const void* from,
                           void* to,
                           std::size_t count,
                           ncclDataType_t type,
                           ncclRedOp_t operation,
                           ncclComm_t communicator,
                           cudaStream_t stream) {
  if (const ncclResult_t refused = enter_nccl(__func__); refused != ncclSuccess) return refused;
  CUstream_st* on = find_stream(stream);
  if (on == nullptr || operation != ncclSum) return ncclInvalidArgument;
  ncclComm::ring& ring = *communicator->of;
  ring.asked[static_cast<std::size_t>(communicator->rank)] =
      ncclComm::request{from, to, count, type, on};
  const bool all_asked = std::all_of(
      ring.asked.begin(), ring.asked.end(), [](const auto& r) { return r.has_value(); });
  return all_asked ? run(ring) : ncclSuccess;
}

}  // extern "C"
