#include <gpuplan/io/slurm_nodes.hpp>

#include <string>

#include "check.hpp"
#include "mutated_text.hpp"
#include "random_numbers.hpp"

using namespace gpuplan;
using namespace gpuplan::io;

namespace {

const std::string scontrol =
    "NodeName=gpu01 Arch=x86_64 CoresPerSocket=32\n"
    "   CPUAlloc=0 CPUEfctv=64 CPUTot=64 CPULoad=0.02\n"
    "   Gres=gpu:a100-sxm4-80gb:4(S:0-1)\n"
    "   NodeAddr=gpu01 NodeHostName=gpu01 Version=23.02.6\n"
    "   OS=Linux 5.14.0 #1 SMP Tue Jan 2 12:00:00 EST 2024\n"
    "   State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1\n"
    "   Partitions=gpu,long\n"
    "\n"
    "NodeName=gpu02 Arch=x86_64 CoresPerSocket=32\n"
    "   Gres=gpu:a100-sxm4-80gb:4(S:0-1)\n"
    "   State=MIXED ThreadsPerCore=1\n"
    "\n"
    "NodeName=gpu03 Arch=x86_64 CoresPerSocket=32\n"
    "   Gres=gpu:a100-sxm4-80gb:4(S:0-1)\n"
    "   State=IDLE+DRAIN ThreadsPerCore=1\n"
    "   Reason=broken fan [root@2024-01-02T12:00:00]\n"
    "\n"
    "NodeName=old1 Arch=x86_64\n"
    "   Gres=gpu:2,nvme:1\n"
    "   State=DOWN*\n"
    "\n"
    "NodeName=cpu1 Arch=x86_64\n"
    "   Gres=(null)\n"
    "   State=ALLOCATED\n";

const std::string sinfo =
    "PARTITION NODES STATE NODELIST GRES\n"
    "gpu* 3 idle node[01-03] gpu:rtx_4090:4\n"
    "gpu* 1 mix node07 gpu:rtx_4090:4\n"
    "gpu* 2 down* node[08,10] gpu:rtx_4090:4\n"
    "long 2 idle node[02-03] gpu:rtx_4090:4\n"
    "cpu 9 idle c[1-9] (null)\n";

}  // namespace

TEST_CASE("what scontrol shows of nodes") {
  const read_slurm_nodes read = read_slurm_nodes_of(scontrol);
  REQUIRE(read);
  REQUIRE(read.groups.size() == 2);
  const slurm_nodes& old = read.groups[0];
  CHECK(old.gres.empty());
  CHECK(old.gpus_per_node == 2);
  CHECK(old.nodes == 1);
  CHECK(old.usable == 0);
  CHECK(old.as_cluster().why().code == errc::unknown_gpu);
  const slurm_nodes& large = read.groups[1];
  CHECK(large.gres == "a100-sxm4-80gb");
  CHECK(large.nodes == 3);
  CHECK(large.usable == 2);
  CHECK(large.idle == 1);
  const result<cluster> found = large.as_cluster();
  REQUIRE(found);
  CHECK(std::string(found->gpu.id) == "a100_sxm4_80gb");
  CHECK(total_gpus(*found) == 8);
}

TEST_CASE("nodes that are switched off until a job comes are usable") {
  const auto state = [](const std::string& is) {
    const read_slurm_nodes read =
        read_slurm_nodes_of("NodeName=a Gres=gpu:h100:8 State=" + is + "\n");
    REQUIRE(read);
    return read.groups[0];
  };
  for (const char* on : {"IDLE+CLOUD+POWERED_DOWN", "IDLE+POWERING_DOWN", "idle~", "IDLE"}) {
    CAPTURE(on);
    CHECK(state(on).usable == 1);
    CHECK(state(on).idle == 1);
  }
  CHECK(state("MIXED+POWERING_UP").usable == 1);
  CHECK(state("MIXED+POWERING_UP").idle == 0);
  for (const char* off : {"DOWN+CLOUD", "IDLE+DRAIN", "IDLE+NOT_RESPONDING", "MIXED+FAIL", "idle*"})
    CHECK_MESSAGE(state(off).usable == 0, off);
}

TEST_CASE("what sinfo lists") {
  const read_slurm_nodes read = read_slurm_nodes_of(sinfo);
  REQUIRE(read);
  REQUIRE(read.groups.size() == 1);
  CHECK(read.groups[0].nodes == 6);
  CHECK(read.groups[0].usable == 4);
  CHECK(read.groups[0].idle == 3);
  CHECK(total_gpus(*read.groups[0].as_cluster()) == 16);
  // A type that several devices may be.
  CHECK(read_slurm_nodes_of("NODELIST GRES\nn1 gpu:h100:8\n").groups[0].as_cluster().why().code ==
        errc::unknown_gpu);
  // The cluster of guide 000 names its types so; that its gpu2080 is an RTX 2080 Ti, no name tells.
  const read_slurm_nodes guide = read_slurm_nodes_of(
      "NODELIST GRES STATE\nclasst25 gpu:gpu4090:4 idle\nclasst[21-22] gpu:gpul40s:6(S:0-1) mix\n"
      "classt[01-05,07-18] gpu:gpu2080:4 idle\n");
  REQUIRE(guide.groups.size() == 3);
  const char* const devices[] = {"rtx_2080", "rtx_4090", "l40s"};
  const std::int64_t gpus[] = {68, 4, 12};
  for (std::size_t at = 0; at < 3; ++at) {
    const result<cluster> one = guide.groups[at].as_cluster();
    REQUIRE(one);
    CHECK(std::string(one->gpu.id) == devices[at]);
    CHECK(total_gpus(*one) == gpus[at]);
  }
  CHECK(read_slurm_nodes_of("NODELIST GRES\nn1 gpu:gpu:8\n").groups[0].as_cluster().why().code ==
        errc::unknown_gpu);
  // All of them are out of order.
  CHECK(read_slurm_nodes_of("NODELIST GRES STATE\nn1 gpu:rtx_4090:8 drng\n")
            .groups[0]
            .as_cluster()
            .why()
            .at_fault() == fact::nodes);
}

TEST_CASE("what lists no GPUs is refused") {
  CHECK(read_slurm_nodes_of("").why.find("NODELIST and GRES") != std::string::npos);
  CHECK(read_slurm_nodes_of("NODELIST GRES\nn1 (null)\n").why.find("no node") == 0);
  CHECK(read_slurm_nodes_of("NODELIST GRES\nn1\n").why == "line 2 has 1 words, and 2 columns");
  CHECK(read_slurm_nodes_of("NODELIST GRES\nr[1-2]n[08-10] gpu:1\n").groups[0].nodes == 6);
  CHECK(read_slurm_nodes_of("NODELIST GRES\nn[1-9][1-999999] gpu:1\n").why.find("line 2") == 0);
  CHECK(read_slurm_nodes_of("NODELIST GRES\nn[4-1] gpu:1\n").why.find("line 2: n[4-1]") == 0);
}

TEST_CASE("any change of the text is read or refused") {
  random_numbers random(5);
  for (const std::string& text : {scontrol, sinfo})
    for (int i = 0; i < 2000; ++i) {
      const read_slurm_nodes read =
          read_slurm_nodes_of(mutated_text(text, "[]-,=:*( \n\t9a", 8, random));
      CHECK(read.groups.empty() == !read);
      for (const slurm_nodes& each : read.groups) {
        CHECK(each.usable <= each.nodes);
        CHECK(each.idle <= each.usable);
        CHECK(each.gpus_per_node > 0);
      }
    }
}
