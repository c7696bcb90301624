// What the compiler made of the kernels: the probes hold the instructions that they count, and no
// others of their kind, and memory is accessed 16 bytes at a time. In machine code where cuobjdump
// is at hand, and in PTX always.

#include <gpuplan/cuda/memory/streams.cuh>
#include <gpuplan/cuda/probes/fma.cuh>
#include <gpuplan/cuda/probes/mma.cuh>
#include <gpuplan/cuda/probes/wgmma.cuh>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace gpuplan::cuda;

// The instructions of a kernel, each as one line without its address, predicate and encoding.
using code = std::vector<std::string>;
// By the part of a mangled name that tells kernels apart.
using program = std::map<std::string, code>;

// Probes are named by their instruction's number, stream kernels by their body.
std::string short_name(const std::string& mangled) {
  for (const std::string_view probe : {"9fma_probe", "9mma_probe", "11wgmma_probe"})
    if (mangled.find(probe) != mangled.npos) {
      const std::size_t number = mangled.find("instructionE") + 12;
      return "probe " + mangled.substr(number, mangled.find('E', number) - number);
    }
  if (const std::size_t body = mangled.find("stream_kernelINS0_"); body != mangled.npos) {
    std::istringstream rest(mangled.substr(body + 18));
    std::size_t length = 0;
    rest >> length;
    std::string name(length, ' ');
    rest.read(name.data(), static_cast<std::streamsize>(length));
    const char of = static_cast<char>(rest.get());
    const char type = static_cast<char>(rest.get());
    return of == 'I' ? name + ' ' + type : name;
  }
  if (mangled.find("12cache_kernel") != mangled.npos) return "cache_kernel";
  return "";
}

std::string name_of(instruction which) {
  return "probe " + std::to_string(static_cast<int>(which));
}

int count(const code& of, std::string_view opcode, std::string_view without = "\n") {
  int found = 0;
  for (const std::string& line : of)
    if (line.starts_with(opcode) && line.find(without) == line.npos) ++found;
  return found;
}

// An opcode as a whole, or followed by further modifiers where it ends in a point.
int count_opcode(const code& of, const std::string& opcode, std::string_view without = "\n") {
  return count(of, opcode.ends_with('.') ? opcode : opcode + ' ', without);
}

// ---- machine code

// Machine code by architecture, "sm_90a".
std::map<std::string, program> disassembled() {
  std::map<std::string, program> found;
  const std::string command = std::string(CUOBJDUMP) + " -sass '" + COMPILED_KERNELS + "'";
  std::FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string architecture;
  code* into = nullptr;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) {
    const std::string line = buffer;
    if (const auto at = line.find("arch = "); at != line.npos) {
      architecture = line.substr(at + 7, line.find_last_not_of(" \n") - at - 6);
      into = nullptr;
    } else if (const auto name = line.find("Function : "); name != line.npos) {
      const std::string known = short_name(line.substr(name + 11));
      into = known.empty() ? nullptr : &found[architecture][known];
    } else if (const auto end = line.find("*/"); into != nullptr && end != line.npos) {
      // "  /*0040*/  @P0 BRA 0x1410 ;  /* ... */"
      std::istringstream words(line.substr(end + 2, line.find(';') - end - 2));
      std::string word;
      std::string text;
      while (words >> word)
        if (!word.starts_with('@') || !text.empty()) text += word + ' ';
      if (line.find(';') != line.npos) into->push_back(text);
    }
  }
  CHECK(pclose(pipe) == 0);
  return found;
}

struct expected_count {
  instruction which;
  const char* opcode;
  int times;  // 24: a pair of 8 sums, and half a pair once more; 72: four pairs of 8 chains, and
              // half
};

// What an architecture must have for each probe; a probe that is not listed must be empty.
std::vector<expected_count> expected_on(const std::string& architecture) {
  using enum instruction;
  const bool ampere = architecture == "sm_80" || architecture == "sm_86";
  const bool hopper = architecture == "sm_90" || architecture == "sm_90a";
  const bool has_fp8 = architecture == "sm_89" || architecture == "sm_120";
  std::vector<expected_count> all{{fma_fp32, "FFMA", 72},
                                  {fma_fp64, "DFMA", 72},
                                  {fma_half2, "HFMA2", 72},
                                  {mma_bf16, "HMMA.16816.F32.BF16", 24},
                                  {mma_fp16, "HMMA.16816.F32", 24},
                                  {mma_fp16_sum_fp16, "HMMA.16816.F16", 24},
                                  {mma_tf32, "HMMA.1688.F32.TF32", 24},
                                  {mma_int8, "IMMA.16832.S8.S8", 24},
                                  {mma_fp64, "DMMA.", 24}};
  // Large dies since Hopper have no mma.sync in fp8: two in fp16 stand for one.
  if (has_fp8)
    all.push_back({mma_fp8, "QMMA.16832.F32.E4M3.E4M3", 24});
  else if (!ampere)
    all.push_back({mma_fp8, "HMMA.16816.F32", 48});
  // Only Hopper has the larger one in fp64; on later ones, four of the smaller stand for it.
  if (hopper)
    all.push_back({mma_fp64_m16n8k8, "DMMA.16x8x8", 24});
  else if (!ampere && architecture != "sm_89")
    all.push_back({mma_fp64_m16n8k8, "DMMA.8x8x4", 96});
  // A pair of four steps, and one step once more.
  if (architecture == "sm_90a") {
    all.push_back({wgmma_bf16, "HGMMA.64x256x16.F32.BF16", 9});
    all.push_back({wgmma_fp16, "HGMMA.64x256x16.F32", 9});
    all.push_back({wgmma_tf32, "HGMMA.64x256x8.F32.TF32", 9});
    all.push_back({wgmma_fp8, "QGMMA.64x256x32.F32.E4M3.E4M3", 9});
    all.push_back({wgmma_int8, "IGMMA.64x256x32.S8.S8", 9});
  }
  return all;
}

void check_probes(const std::string& architecture, program& of) {
  const std::vector<expected_count> expected = expected_on(architecture);
  for (const instruction which : all_instructions) {
    CAPTURE(facts_of(which).name);
    REQUIRE(of.contains(name_of(which)));
    const code& kernel = of[name_of(which)];
    const expected_count* wanted = nullptr;
    for (const expected_count& one : expected)
      if (one.which == which) wanted = &one;
    // Matrix products of any kind.
    const int products = count(kernel, "HMMA") + count(kernel, "IMMA") + count(kernel, "DMMA") +
                         count(kernel, "QMMA") + count(kernel, "HGMMA") + count(kernel, "IGMMA") +
                         count(kernel, "QGMMA");
    if (wanted == nullptr) {
      CHECK(products == 0);
      CHECK(count(kernel, "CS2R") == 0);  // it does not even read the clock
      continue;
    }
    if (facts_of(which).by == issuer::thread) {
      // Where RZ stands for a zero, it is no FMA of ours, but a way to load a constant.
      // HFMA2.MMA is the same by the other of two units that take it.
      CHECK(count_opcode(kernel, wanted->opcode, "RZ") +
                count_opcode(kernel, wanted->opcode + std::string(".MMA"), "RZ") ==
            wanted->times);
      CHECK(products == 0);
    } else {
      CHECK(count_opcode(kernel, wanted->opcode) == wanted->times);
      CHECK(products == wanted->times);
    }
    // Nothing waits for memory: all stays in registers.
    CHECK(count(kernel, "LDL") + count(kernel, "STL") + count(kernel, "LDG") == 0);
  }
}

void check_memory(program& of) {
  for (const char* name :
       {"copy_body", "read_body", "write_body", "triad_body d", "triad_body f"}) {
    CAPTURE(name);
    REQUIRE(of.contains(name));
    const code& kernel = of[name];
    const bool reads = std::string_view(name) != "write_body";
    const bool writes = std::string_view(name) != "read_body";
    const int loads = count(kernel, "LDG");
    const int stores = count(kernel, "STG");
    CHECK(loads == count(kernel, "LDG.E.128"));
    CHECK(stores == count(kernel, "STG.E.128"));
    CHECK((loads > 0) == reads);
    CHECK((stores > 0) == writes);
    CHECK(count(kernel, "LDL") + count(kernel, "STL") == 0);
    // Somewhere at least four loads stand together before what they loaded is stored or added.
    int run = 0;
    int longest = 0;
    for (const std::string& line : kernel) {
      if (line.starts_with("LDG")) longest = std::max(longest, ++run);
      if (line.starts_with("STG") || line.starts_with("BRA")) run = 0;
    }
    if (reads) CHECK(longest >= stream_unrolled * (name[0] == 't' ? 2 : 1));
  }
  const code& cache = of["cache_kernel"];
  CHECK(count(cache, "LDG") >= stream_unrolled);
  // Past the L1 cache, which caches loads only that are not "strong".
  CHECK(count(cache, "LDG.E.128.STRONG.GPU") == count(cache, "LDG"));
}

// ---- PTX

program ptx() {
  program found;
  std::ifstream file(PTX_OF_KERNELS);
  REQUIRE(file.good());
  code* into = nullptr;
  std::string line;
  while (std::getline(file, line)) {
    if (const auto name = line.find(".entry "); name != line.npos) {
      const std::string known = short_name(line.substr(name + 7));
      into = known.empty() ? nullptr : &found[known];
    } else if (into != nullptr) {
      std::istringstream words(line);
      std::string word;
      std::string text;
      while (words >> word)
        if (!word.starts_with('@') || !text.empty()) text += word + ' ';
      into->push_back(text);
    }
  }
  return found;
}

}  // namespace

TEST_CASE("PTX for sm_90a holds the instructions of every probe") {
  using enum instruction;
  program of = ptx();
  const expected_count expected[] = {
      {fma_fp32, "fma.rn.f32", 72},
      {fma_fp64, "fma.rn.f64", 72},
      {fma_half2, "fma.rn.f16x2", 72},
      {mma_bf16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 24},
      {mma_fp16, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 24},
      {mma_fp16_sum_fp16, "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", 24},
      {mma_tf32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 24},
      {mma_fp8, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", 24},
      {mma_int8, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 24},
      {mma_fp64, "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", 24},
      {mma_fp64_m16n8k8, "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64", 24},
      {wgmma_bf16, "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16", 9},
      {wgmma_fp16, "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16", 9},
      {wgmma_tf32, "wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32", 9},
      {wgmma_fp8, "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3", 9},
      {wgmma_int8, "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8", 9}};
  for (const expected_count& one : expected) {
    CAPTURE(facts_of(one.which).name);
    REQUIRE(of.contains(name_of(one.which)));
    const code& kernel = of[name_of(one.which)];
    CHECK(count(kernel, std::string(one.opcode) + ' ') == one.times);
    CHECK(count(kernel, "mma.") + count(kernel, "wgmma.mma") + count(kernel, "fma.") == one.times);
  }
}

TEST_CASE("machine code of every architecture holds the instructions of every probe") {
  if (*CUOBJDUMP == '\0') {
    MESSAGE("no cuobjdump here: instructions are counted in PTX alone");
    return;
  }
  std::map<std::string, program> all = disassembled();
  CHECK(all.size() == 7);
  for (auto& [architecture, of] : all) {
    CAPTURE(architecture);
    check_probes(architecture, of);
    check_memory(of);
  }
}
