#include "check.hpp"

#include <gpuplan/measure/recognise.hpp>

#include <span>
#include <string_view>

namespace {

using namespace gpuplan;
using namespace std::string_view_literals;
using measure::device_properties;
using measure::disagreement;
using measure::recognise;

// As the deviceQuery sample of CUDA printed them of these devices, in public repositories.
constexpr device_properties h100_sxm{.name = "NVIDIA H100 80GB HBM3",
                                     .compute_capability = 90,
                                     .sm_count = 132,
                                     .clock_MHz = 1980,
                                     .memory_clock_MHz = 2619,
                                     .memory_bus_bits = 5120,
                                     .memory = 85'017'755'648_B,
                                     .l2 = 50_MiB};
constexpr device_properties a100_sxm_80gb{.name = "NVIDIA A100-SXM4-80GB",
                                          .compute_capability = 80,
                                          .sm_count = 108,
                                          .clock_MHz = 1410,
                                          .memory_clock_MHz = 1593,
                                          .memory_bus_bits = 5120,
                                          .memory = 84'987'740'160_B,
                                          .l2 = 40_MiB};
constexpr device_properties a100_sxm_40gb{.name = "A100-SXM4-40GB",
                                          .compute_capability = 80,
                                          .sm_count = 108,
                                          .clock_MHz = 1410,
                                          .memory_clock_MHz = 1215,
                                          .memory_bus_bits = 5120,
                                          .memory = 42'405'855'232_B,
                                          .l2 = 40_MiB};
constexpr device_properties rtx_4090{.name = "NVIDIA GeForce RTX 4090",
                                     .compute_capability = 89,
                                     .sm_count = 128,
                                     .clock_MHz = 2520,
                                     .memory_clock_MHz = 10501,
                                     .memory_bus_bits = 384,
                                     .memory = 25'250'627'584_B,
                                     .l2 = 72_MiB};
constexpr device_properties l40s{.name = "NVIDIA L40S",
                                 .compute_capability = 89,
                                 .sm_count = 142,
                                 .clock_MHz = 2520,
                                 .memory_clock_MHz = 9001,
                                 .memory_bus_bits = 384,
                                 .memory = 47'576'711'168_B,
                                 .l2 = 96_MiB};
constexpr device_properties t4{.name = "Tesla T4",
                               .compute_capability = 75,
                               .sm_count = 40,
                               .clock_MHz = 1590,
                               .memory_clock_MHz = 5001,
                               .memory_bus_bits = 256,
                               .memory = 15'843'721'216_B,
                               .l2 = 4_MiB};
// The memory is nvidia-smi's; what CUDA counts of this one was not found.
constexpr device_properties h100_pcie{.name = "NVIDIA H100 PCIe",
                                      .compute_capability = 90,
                                      .sm_count = 114,
                                      .clock_MHz = 1755,
                                      .memory_clock_MHz = 1593,
                                      .memory_bus_bits = 5120,
                                      .memory = 81559_MiB,
                                      .listed_memory = 81559_MiB};
// Likewise: the memory of its nvidia-smi.
constexpr device_properties slice{.name = "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
                                  .compute_capability = 80,
                                  .sm_count = 14,
                                  .clock_MHz = 1410,
                                  .memory_clock_MHz = 1215,
                                  .memory_bus_bits = 640,
                                  .memory = 4864_MiB,
                                  .listed_memory = 40960_MiB};

constexpr bool is(const device_properties& given, const gpu_spec& expected) {
  const auto found = recognise(given);
  return found.spec.id == std::string_view(expected.id) && found.by_name &&
         found.why.code == errc::none && found.disagreements().empty() &&
         *found.spec.dense.fp16 == *expected.dense.fp16 && *found.spec.memory == *expected.memory;
}

TEST_CASE("a device is recognised by the name that the driver gives it") {
  STATIC_CHECK(is(h100_sxm, catalog::h100_sxm5_80gb));
  STATIC_CHECK(is(h100_pcie, catalog::h100_pcie_80gb));
  STATIC_CHECK(is(a100_sxm_80gb, catalog::a100_sxm4_80gb));
  STATIC_CHECK(is(a100_sxm_40gb, catalog::a100_sxm4_40gb));
  STATIC_CHECK(is(rtx_4090, catalog::rtx_4090));
  STATIC_CHECK(is(l40s, catalog::l40s));
  STATIC_CHECK(is(t4, catalog::t4));
}

TEST_CASE("a MIG slice is its part of the catalogue's device") {
  CONSTEXPR auto found = recognise(slice);
  STATIC_CHECK(found.spec.id == "a100_sxm4_40gb"sv && found.spec.slice == "1g.5gb"sv);
  STATIC_CHECK(found.spec.sm_count == 14 && *found.spec.memory == 4864_MiB);
  STATIC_CHECK(found.spec.memory_bandwidth == catalog::a100_sxm4_40gb.memory_bandwidth / 8);
  STATIC_CHECK(found.disagreements().empty());

  CONSTEXPR auto unknown = [] {
    device_properties other = slice;
    other.name = "NVIDIA A100-SXM4-40GB MIG 5g.25gb";
    return recognise(other);
  }();
  STATIC_CHECK(unknown.why.code == errc::unknown_mig_profile && *unknown.spec.id == '\0');
}

TEST_CASE("an unknown device has its own counts and no rates") {
  CONSTEXPR device_properties older{.name = "NVIDIA GeForce GTX 1660 Ti",
                                    .compute_capability = 75,
                                    .sm_count = 24,
                                    .clock_MHz = 1770,
                                    .memory_clock_MHz = 6001,
                                    .memory_bus_bits = 192,
                                    .memory = 6'226'378'752_B};
  CONSTEXPR auto found = recognise(older);
  STATIC_CHECK(found.why.code == errc::unknown_gpu && found.why.subject[0] != '\0');
  STATIC_CHECK(!found.by_name && found.disagreements().empty());
  STATIC_CHECK(*found.spec.id == '\0' && found.spec.name == older.name);
  STATIC_CHECK(found.spec.sm_count == 24 && *found.spec.compute_capability == 75);
  STATIC_CHECK(*found.spec.memory == older.memory);
  STATIC_CHECK(found.spec.memory_bandwidth == 288.048_GBps);  // 2 x 6001 MHz x 24 bytes
  STATIC_CHECK(!found.spec.dense.fp32 && !peak(found.spec, number_format::bf16));
}

TEST_CASE("another name is no obstacle where counts and memory are those of one device alone") {
  CONSTEXPR auto renamed = [](device_properties given) {
    given.name = "A card by another name";
    return recognise(given);
  };
  STATIC_CHECK(renamed(t4).spec.id == "t4"sv && !renamed(t4).by_name);
  STATIC_CHECK(renamed(t4).why.code == errc::none);
  STATIC_CHECK(renamed(h100_sxm).why.code == errc::unknown_gpu);  // or an H800
  // SXM and PCIe have the same, and so have the L40 and the L40S.
  STATIC_CHECK(renamed(a100_sxm_80gb).why.code == errc::unknown_gpu);
  STATIC_CHECK(renamed(l40s).why.code == errc::unknown_gpu);
}

template <class Change>
constexpr auto changed(device_properties given, Change change) {
  change(given);
  return recognise(given);
}

// The one disagreement is of this, with these numbers.
constexpr bool says(const measure::recognised_device& found,
                    std::string_view what,
                    double catalogue,
                    double device) {
  if (found.disagreements().size() != 1) return false;
  const disagreement& only = found.disagreements()[0];
  return only.what == what && only.catalogue == catalogue && only.device == device;
}

TEST_CASE("what the device contradicts is said, and its own counts stand") {
  CONSTEXPR auto fewer = changed(h100_sxm, [](auto& of) { of.sm_count = 114; });
  STATIC_CHECK(says(fewer, "SMs", 132, 114) && fewer.spec.sm_count == 114);
  CONSTEXPR auto other = changed(h100_sxm, [](auto& of) { of.compute_capability = 80; });
  STATIC_CHECK(says(other, "compute capability", 9.0, 8.0));
  STATIC_CHECK(*other.spec.compute_capability == 80);
  CONSTEXPR auto slow_memory = changed(h100_sxm, [](auto& of) { of.memory_clock_MHz = 2000; });
  STATIC_CHECK(says(slow_memory, "memory bandwidth", 3350, 2560));
  STATIC_CHECK(slow_memory.spec.memory_bandwidth == 3350_GBps);
  CONSTEXPR auto unsaid = changed(h100_sxm, [](auto& of) { of.memory_clock_MHz = 0; });
  STATIC_CHECK(unsaid.disagreements().empty());
  CONSTEXPR auto slow = changed(h100_sxm, [](auto& of) { of.clock_MHz = 1755; });
  STATIC_CHECK(says(slow, "highest clock", 1830, 1755));
  CONSTEXPR auto limited = changed(h100_sxm, [](auto& of) { of.power_limit = 500_W; });
  STATIC_CHECK(says(limited, "power limit", 700, 500) && *limited.spec.tdp == 700_W);
  CONSTEXPR auto usual = changed(h100_sxm, [](auto& of) { of.power_limit = 699.9_W; });
  STATIC_CHECK(usual.disagreements().empty());
  CONSTEXPR auto narrow = changed(h100_sxm, [](auto& of) { of.pcie = pcie_link{5, 8}; });
  STATIC_CHECK(says(narrow, "PCIe lanes", 16, 8) && narrow.spec.pcie->lanes == 8);
  CONSTEXPR auto old = changed(h100_sxm, [](auto& of) { of.pcie = pcie_link{4, 16}; });
  STATIC_CHECK(says(old, "PCIe generation", 5, 4) && old.spec.pcie->generation == 4);

  // As deviceQuery printed it of an RTX 4090 whose ECC was on.
  CONSTEXPR auto with_ecc = changed(rtx_4090, [](auto& of) { of.memory = 24'146'083'840_B; });
  STATIC_CHECK(with_ecc.disagreements().size() == 1);
  STATIC_CHECK(with_ecc.disagreements()[0].what == "memory"sv);
  STATIC_CHECK(with_ecc.disagreements()[0].unit == "GiB"sv);
  STATIC_CHECK(*with_ecc.spec.memory == 24'146'083'840_B);
  CONSTEXPR auto modified = changed(rtx_4090, [](auto& of) { of.memory = 48_GiB; });
  STATIC_CHECK(says(modified, "memory", in(*catalog::rtx_4090.memory, 1_GiB), 48));
}

TEST_CASE("everything may be wrong at once") {
  CONSTEXPR auto all = changed(h100_sxm, [](auto& of) {
    of.compute_capability = 80;
    of.sm_count = 1;
    of.memory = 1_GiB;
    of.memory_clock_MHz = 1;
    of.clock_MHz = 1;
    of.power_limit = 1_W;
    of.pcie = pcie_link{3, 1};
  });
  STATIC_CHECK(all.disagreements().size() == 8);
}

TEST_CASE("what nvidia-smi lists is the memory where it is known") {
  CONSTEXPR auto listed = changed(h100_sxm, [](auto& of) { of.listed_memory = 81920_MiB; });
  STATIC_CHECK(*listed.spec.memory == 81920_MiB && listed.disagreements().empty());
}

}  // namespace
