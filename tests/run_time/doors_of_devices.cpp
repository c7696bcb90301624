// What is trained on, how fast and in which plan, with any value in any field: rates, times, plans
// and batches are sound, or refused with a reason.

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/cluster.hpp>
#include <gpuplan/communication.hpp>
#include <gpuplan/device_needs.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/matmul_surface.hpp>
#include <gpuplan/memory_model.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/planner/front.hpp>
#include <gpuplan/planner/limits.hpp>
#include <gpuplan/reliability.hpp>
#include <gpuplan/replay/device_kernels.hpp>
#include <gpuplan/solver.hpp>
#include <gpuplan/solver/recovery.hpp>
#include <gpuplan/time/calibrated.hpp>
#include <gpuplan/time/explanation.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/time/stack_numbers.hpp>
#include <gpuplan/time/stack_range.hpp>
#include <gpuplan/time/step_rates.hpp>

#include "asked_doors.hpp"

using namespace gpuplan;

namespace {

constexpr cluster two_nodes{.name = "two nodes",
                            .gpu = catalog::a100_sxm4_80gb,
                            .nodes = 2,
                            .gpus_per_node = 4,
                            .between_nodes = 100_GBps,
                            .collective_launch = 20_us,
                            .hop_between = 5_us,
                            .price_per_gpu = dated_price{2_usd_per_hour, "2026-01-01", "a test"},
                            .time_in_queue = range<duration>(1_h, 2_h),
                            .power_per_gpu = 700_W};

constexpr training_setup small_gpt{.model =
                                       [] {
                                         transformer model = catalog::gpt2;
                                         model.num_hidden_layers = 4;
                                         return model;
                                       }(),
                                   .sequence_length = 128,
                                   .precision = bf16_megatron,
                                   .framework = catalog::megatron_lm};

struct described_time {
  roofline_time model{};
  batch_plan plan{};
  double coverage = 0.8;
  timed_parts timed{};
};

void ask_about_gpu(const gpu_spec& gpu, door_log& log) {
  for (int format = 0; format < fields::enumerators<number_format>(); ++format) {
    log("peak", peak(gpu, static_cast<number_format>(format)));
    log("sparse_peak", sparse_peak(gpu, static_cast<number_format>(format)));
  }
  log("mig", mig(gpu, "1g.10gb"));
  if (!log.takes(validate(gpu))) return;
  if (gpu.memory || gpu.memory_label_GB > 0) log("usable_memory", usable_memory(gpu));
  log("matmul_ceiling", matmul_ceiling(gpu, number_format::bf16));
  log("memory_ceiling", memory_ceiling(gpu));
  log("l2_ceiling", l2_ceiling(gpu));
  log("host_link_ceiling", host_link_ceiling(gpu, host_copy::to_device));
  log("peer_ceiling", peer_ceiling(gpu));
  log("launch_latency", launch_latency(gpu));
  log("all_reduce_of", all_reduce_of(gpu, 8));
  log("matmul_rate", matmul_rate(gpu, number_format::bf16, {4096, 4096, 4096}));
  log("cublas_workspace", cublas_workspace(gpu));
  log("nccl_channels", nccl_channels(gpu));
  log("kernel_shares_of", kernel_shares_of(gpu));
  log("constants_inside_node", constants_inside_node(gpu));
  if (const auto part = mig(gpu, "1g.10gb"); part && gpu.sm_count > 0) {
    log("sm_share", sm_share(gpu, *part));
    log("slice_of", usable_memory(slice_of(gpu, *part)));
  }
}

void ask_about_cluster(const cluster& given, door_log& log) {
  if (!log.takes(validate(given))) return;
  log("total_gpus", total_gpus(given));
  log("linked_gpus", linked_gpus(given));
  log("total_memory", total_memory(given));
  log("total_peak", total_peak(given, number_format::bf16));
  log("total_power", total_power(given));
  log("total_matmul_ceiling", total_matmul_ceiling(given, number_format::bf16));
  log("inside_node_ceiling", inside_node_ceiling(given));
  log("link_inside_node", link_inside_node(given));
  log("link_between_nodes", link_between_nodes(given));
  const auto links = interconnect_of(given);
  log("interconnect_of", links);
  if (given.gpu.pcie) log("pcie_between_devices", pcie_between_devices(given.gpu));
  if (!links || !(links->inside_node.value() >= 1)) return;
  log("link_range", link_range(given));
  for (int each = 0; each < fields::enumerators<collective>(); ++each) {
    const auto what = static_cast<collective>(each);
    for (const std::int64_t ranks : {std::int64_t{1}, std::int64_t{3}, total_gpus(given)}) {
      const device_group group = group_of(ranks, 1, links->devices_per_node);
      if (group.nodes() > 1 && !(links->between_nodes && links->between_nodes->value() >= 1))
        continue;
      log("group_of", group);
      const duration time = collective_time(what, 1_GB, group, *links);
      log("collective_time", time);
      if (time > duration{}) log("bus_bandwidth", bus_bandwidth(what, 1_GB, group, time));
    }
  }
  log("copy_bandwidth", copy_bandwidth(links->inside_node, links->inside));
}

void ask_about_time(const described_time& given, door_log& log) {
  const auto& [model, plan, coverage, timed] = given;
  log("calibrate", calibrate(model, timed));
  const auto runs = runs_on(model.on.gpu, model.setup);
  if (!log.takes(validate(model))) return;
  log.holds("runs_on", static_cast<bool>(runs), "a device that does not run it has a time");
  if (!log.takes(validate(model, plan))) return;
  const duration step = model.step(plan);
  log("step", step);
  log.holds("step", step > duration{}, "takes no time");
  log("breakdown", model.breakdown(plan));
  static_cast<void>(model.origins());
  const range<duration> all = step_range(model, plan);
  log("step_range", all);
  log("step_ranges_of", step_ranges_of(model, plan).host);
  if (coverage > 0 && coverage < 1) {
    const time_interval interval = step_interval(model, plan, coverage);
    log("step_interval", interval);
    log.holds("step_interval",
              interval.low <= interval.median && interval.median <= interval.high,
              "is in no order");
    roofline_time slower = model;
    slower.straggler_slowdown *= 2;
    if (validate(slower)) {
      const times_as_long ratio = step_ratio(model, plan, slower, plan, coverage);
      log("step_ratio", ratio.low);
      log.holds(
          "step_ratio", ratio.low <= ratio.median && ratio.median <= ratio.high, "is in no order");
    }
  }
  const time_explanation why = explain_time(model, plan);
  log("explain_time", why.step);
  log("step_with", step_with(model, plan, time_resource::memory, 2));
  log("rates_of", rates_of(model.setup, model.on.gpu, plan, step));
  log("throughput", throughput(plan, model));
}

struct described_request {
  plan_request request{};
  double gigabytes = 80;
  double front_step = 0.1;
  int plans = 2;
};

void ask_about_plan(const described_request& given, door_log& log) {
  const auto& [request, gigabytes, front_step, plans] = given;
  const auto memory_of = [](const training_setup& setup) {
    const double layers = static_cast<double>(setup.model.layers()) /
                          static_cast<double>(setup.parallelism.pipeline_parallel);
    return affine_memory{1_GB * layers, 0.1_GB * layers};
  };
  const memory_budget budget(bytes::from_value(gigabytes * 1e9));
  const auto found = plan_training(request, budget, memory_of, plans);
  log.holds("plan_training", !found || found->count > 0, "answers with nothing");
  if (found)
    for (const training_plan& plan : *found) {
      log("plan_training", plan.step);
      log("plan_training", plan.required);
      log("plan_training", validate(plan.batch));
      log.holds("plan_training", plan.required <= budget.size(), "has a plan that does not fit");
      log("loss_of", loss_of(request, plan, found->best()));
      log("cluster_of", total_gpus(cluster_of(request, plan)));
      log("time_of", time_of(request, plan).step(plan.batch));
      log.holds("setup_of", setup_of(request, plan).parallelism == plan.layout, "is of another");
      if (request.samples > 0) log("run_of", run_of(request, plan).time);
    }
  else
    log("plan_training", found);
  const auto front = front_of(request, budget, memory_of, front_step);
  log.holds("front_of", !front || front->count > 0, "answers with nothing");
  if (!front) log("front_of", front);
  const auto limits = limits_of(request, budget, memory_of);
  if (!limits) log("limits_of", limits);
}

struct described_batch {
  range<std::int64_t> effective_batch{24, 48};
  std::int64_t data_parallel = 4;
  double gpu = 80e9;
  affine_memory memory{8_GB, 1_GB};
  batch_plan plan{};
  std::int64_t other_data_parallel = 3;
  double share = 0.5;
};

void ask_about_batch(const described_batch& given, door_log& log) {
  const memory_budget gpu(bytes::from_value(given.gpu));
  const batch_request request{given.effective_batch, given.data_parallel, gpu};
  const affine_memory& memory = given.memory;
  log("max_micro_batch", max_micro_batch(gpu, memory, given.plan));
  const auto best = solve_batch(request, memory);
  log("solve_batch", best);
  if (best) {
    log.holds("solve_batch",
              given.effective_batch.contains(best->effective_batch()) &&
                  memory.required(*best) <= gpu.size(),
              "has another batch, or one that does not fit");
    log.holds("fits", fits(*best, gpu, memory), "not, of what was solved");
  }
  log("solve_nearest_batch", solve_nearest_batch(request, memory));
  log("keep_effective_batch",
      keep_effective_batch(given.plan, given.other_data_parallel, gpu, memory));
  const auto uneven =
      solve_uneven_batch(given.effective_batch.high(), given.data_parallel, gpu, memory);
  log("solve_uneven_batch", uneven);
  log("check", check(given.plan, gpu, memory));
  log("after_out_of_memory", after_out_of_memory(given.plan));
  const auto recovered = recover_from_out_of_memory(given.plan, gpu, memory, memory);
  log.holds("recover_from_out_of_memory",
            recovered || recovered.why().code != errc::none,
            "refuses without a reason");
  if (given.share >= 0 && given.share <= 1 && validate(memory)) {
    log("with", with(memory, checkpointing(given.share)));
    log("with", with(memory, mixed_precision(given.share)));
    if (given.gpu >= 0 && given.gpu < 1e300) log("keep_free", keep_free({given.share}, gpu).size());
  }
}

}  // namespace

TEST_CASE("devices with any value in any field have rates, or are refused") {
  for (const gpu_spec& gpu : {catalog::a100_sxm4_80gb, catalog::h100_sxm5_80gb, catalog::rtx_4090})
    ask_doors(gpu.name, gpu, 1, 300, ask_about_gpu);
}

TEST_CASE("clusters with any value in any field have links, or are refused") {
  ask_doors("cluster", two_nodes, 1, 1000, ask_about_cluster);
}

TEST_CASE("steps with any value in any field take a time, or are refused") {
  ask_doors("roofline",
            described_time{{.setup = small_gpt, .on = two_nodes, .efficiency = catalog::ampere},
                           {.micro_batch = 2, .data_parallel = 8}},
            4,
            500,
            ask_about_time);
  described_time mixture{{.setup = {.model = catalog::mixtral_8x7b_v0_1,
                                    .sequence_length = 512,
                                    .precision = bf16_megatron,
                                    .parallelism = {.tensor_parallel = 2,
                                                    .pipeline_parallel = 2,
                                                    .expert_parallel = 2,
                                                    .zero_stage = 1},
                                    .framework = catalog::megatron_lm},
                          .on = two_nodes,
                          .efficiency = catalog::ampere},
                         {.data_parallel = 2, .accumulation = 8}};
  ask_doors("roofline of a mixture", mixture, 16, 300, ask_about_time);
}

TEST_CASE("requests with any value in any field have a plan, or are refused") {
  described_request base{.request = {.setup = small_gpt,
                                     .on = two_nodes,
                                     .efficiency = catalog::ampere,
                                     .effective_batch = range<std::int64_t>(16, 32),
                                     .space = {.tensor_parallel = range<std::int64_t>(1, 2),
                                               .pipeline_parallel = range<std::int64_t>(1, 2),
                                               .micro_batch = {1, 4}},
                                     .samples = 1000}};
  ask_doors("plan", base, 8, 150, ask_about_plan);
}

TEST_CASE("batches with any value in any field are solved, or are refused") {
  ask_doors("batch", described_batch{}, 1, 3000, ask_about_batch);
}
