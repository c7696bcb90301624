// What the compiler made of the own matrix product: all loops over registers are unrolled, so that
// each instruction of a step stands there once, and nothing is in memory that belongs in registers.

#include <gpuplan/cuda/own_gemm.cuh>

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace {

using namespace gpuplan::cuda::own_gemm;

// The PTX of the kernel whose mangled name holds `element`.
std::string code_of(std::string_view element) {
  std::ifstream file(PTX_OF_OWN_KERNELS);
  REQUIRE(file.good());
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  for (std::size_t at = all.find(".entry"); at != all.npos; at = all.find(".entry", at + 1)) {
    const std::string one = all.substr(at, all.find(".entry", at + 1) - at);
    if (one.substr(0, one.find('(')).find(element) != one.npos) return one;
  }
  return "";
}

int count(const std::string& in, std::string_view what) {
  int found = 0;
  for (std::size_t at = in.find(what); at != in.npos; at = in.find(what, at + 1)) ++found;
  return found;
}

void check_kernel(std::string_view element, const std::string& format) {
  CAPTURE(format);
  const std::string code = code_of(element);
  REQUIRE(!code.empty());
  constexpr int products = tile_k / 16;
  CHECK(count(code, "mma.sync.aligned.m16n8k16.row.col.f32." + format + "." + format + ".f32") ==
        products * (warp_m / 16) * (warp_n / 8));
  CHECK(count(code, "mma.sync") == products * (warp_m / 16) * (warp_n / 8));
  CHECK(count(code, "ldmatrix.sync.aligned.m8n8.x4.shared.b16") ==
        products * (warp_m / 16 + warp_n / 16));
  // Before the first step, and in each for the next.
  CHECK(count(code, "cp.async.cg.shared.global") == 2 * tile_rows * chunks_of_row / threads);
  CHECK(count(code, "cp.async.wait_all") == 1);
  CHECK(count(code, "bar.sync") == 1);
  CHECK(count(code, ".local") == 0);
}

}  // namespace

TEST_CASE("the own kernels hold the instructions of one step, and no memory of a thread's own") {
  check_kernel("__half", "f16");
  check_kernel("__nv_bfloat16", "bf16");
}
