#include "check.hpp"

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/systems.hpp>
#include <gpuplan/cluster.hpp>

#include <cstdint>
#include <string_view>

namespace {

using namespace gpuplan;
using namespace std::string_view_literals;

// GPUs 6 x 2 of the first guide.
constexpr cluster l40s_nodes{
    .name = "classt21-22",
    .gpu = catalog::l40s,
    .nodes = 2,
    .gpus_per_node = 6,
    .between_nodes = 100_Gbps,
    .price_per_gpu = dated_price{0.99_usd_per_hour, "2026-08-27", "RunPod"},
    .time_in_queue = range<duration>{1_h, 4_h}};

template <class Change>
constexpr failure flaw(Change change) {
  cluster changed = l40s_nodes;
  change(changed);
  return validate(changed).why();
}

TEST_CASE("a cluster adds up its GPUs") {
  STATIC_CHECK(validate(l40s_nodes));
  STATIC_CHECK(total_gpus(l40s_nodes) == 12);
  STATIC_CHECK(total_memory(l40s_nodes) == 12 * usable_memory(catalog::l40s));
  STATIC_CHECK(*total_peak(l40s_nodes, number_format::fp32) == 1099.2_TFLOPS);
  STATIC_CHECK(*total_power(l40s_nodes) == 4200_W);
  STATIC_CHECK(total_peak(l40s_nodes, number_format::fp4).why().code == errc::unsupported_format);
  STATIC_CHECK(total_peak(l40s_nodes, number_format::fp4).why().subject == "l40s"sv);
}

TEST_CASE("what is stated comes before what follows from the GPU") {
  STATIC_CHECK(*link_inside_node(l40s_nodes) == catalog::l40s.pcie->each_direction());
  STATIC_CHECK(*link_between_nodes(l40s_nodes) == 12.5_GBps);
  STATIC_CHECK(*link_inside_node({.gpu = catalog::h100_sxm5_80gb}) == 450_GBps);
  STATIC_CHECK(*link_inside_node({.gpu = catalog::l40s, .inside_node = 20_GBps}) == 20_GBps);
  STATIC_CHECK(*total_power({.gpu = catalog::l40s, .nodes = 3, .power_per_gpu = 500_W}) == 1500_W);

  CONSTEXPR cluster pod{.gpu = catalog::tpu_v5p};
  STATIC_CHECK(total_power(pod).why().code == errc::not_known);
  STATIC_CHECK(total_power(pod).why().at_fault() == fact::power_per_gpu);
  STATIC_CHECK(link_between_nodes(pod).why().at_fault() == fact::between_nodes);
  STATIC_CHECK(link_inside_node({.gpu = catalog::trainium1}).why().code == errc::not_known);
}

TEST_CASE("a cluster that makes no sense is refused") {
  CONSTEXPR auto no_nodes = flaw([](cluster& c) { c.nodes = 0; });
  STATIC_CHECK(no_nodes.code == errc::out_of_bounds && no_nodes[fact::nodes] == 0);
  STATIC_CHECK(no_nodes[fact::at_least] == 1);
  CONSTEXPR auto no_gpus = flaw([](cluster& c) { c.gpus_per_node = -4; });
  STATIC_CHECK(no_gpus.code == errc::out_of_bounds && no_gpus[fact::gpus_per_node] == -4);
  CONSTEXPR auto too_many = flaw([](cluster& c) { c.nodes = std::int64_t{1} << 61; });
  STATIC_CHECK(too_many.code == errc::overflow && too_many[fact::gpus_per_node] == 6);

  CONSTEXPR auto slow = flaw([](cluster& c) { c.inside_node = 0_GBps; });
  STATIC_CHECK(slow.code == errc::not_positive && slow.at_fault() == fact::inside_node);
  CONSTEXPR auto back = flaw([](cluster& c) { c.between_nodes = -2_GBps; });
  STATIC_CHECK(back.code == errc::not_positive && back.at_fault() == fact::between_nodes);
  STATIC_CHECK(back[fact::MBps] == -2000);
  CONSTEXPR auto endless =
      flaw([](cluster& c) { c.inside_node = bandwidth::from_value(__builtin_inf()); });
  STATIC_CHECK(endless.code == errc::not_finite);
  CONSTEXPR auto no_link =
      flaw([](cluster& c) { c.inside_node = bandwidth::from_value(__builtin_nan("")); });
  STATIC_CHECK(no_link.code == errc::not_finite);
  CONSTEXPR auto cold = flaw([](cluster& c) { c.power_per_gpu = 0_W; });
  STATIC_CHECK(cold.code == errc::not_positive && cold.at_fault() == fact::power_per_gpu);
}

TEST_CASE("a price needs a day, and neither it nor the queue is negative") {
  CONSTEXPR auto undated = flaw([](cluster& c) { c.price_per_gpu = dated_price{3_usd_per_hour}; });
  STATIC_CHECK(undated.code == errc::undated_price);
  CONSTEXPR auto paid = flaw([](cluster& c) {
    c.price_per_gpu = dated_price{-3_usd_per_hour, "2026-08-27"};
  });
  STATIC_CHECK(paid.code == errc::negative && paid[fact::cents_per_hour] == -300);
  CONSTEXPR auto no_price = flaw([](cluster& c) {
    c.price_per_gpu = dated_price{price::from_value(__builtin_nan("")), "2026-08-27"};
  });
  STATIC_CHECK(no_price.code == errc::not_finite);
  CONSTEXPR auto free = flaw([](cluster& c) {
    c.price_per_gpu = dated_price{0_usd_per_hour, "2026-08-27"};
  });
  STATIC_CHECK(free.code == errc::none);

  CONSTEXPR auto early = flaw([](cluster& c) { c.time_in_queue = range<duration>{-1_s, 1_h}; });
  STATIC_CHECK(early.code == errc::negative && early[fact::time_us] == -1'000'000);
  CONSTEXPR auto never = flaw([](cluster& c) {
    c.time_in_queue = range<duration>{0_s, duration::from_value(__builtin_inf())};
  });
  STATIC_CHECK(never.code == errc::not_finite && never.at_fault() == fact::time_in_queue);
}

TEST_CASE("a link domain joins GPUs across nodes, as few domains as hold the job") {
  CONSTEXPR auto linked = [](std::int64_t nodes, std::int64_t domain) {
    return linked_gpus({.nodes = nodes, .gpus_per_node = 4, .gpus_per_link_domain = domain});
  };
  STATIC_CHECK(linked(1, 0) == 4 && linked(64, 0) == 4 && linked(64, 4) == 4);
  STATIC_CHECK(linked(18, 72) == 72);  // a rack
  STATIC_CHECK(linked(16, 72) == 64);
  STATIC_CHECK(linked(64, 72) == 64);  // 256 GPUs: four racks
  STATIC_CHECK(linked(19, 72) == 40);  // ten nodes and nine
  CONSTEXPR auto uneven = flaw([](cluster& c) { c.gpus_per_link_domain = c.gpus_per_node + 1; });
  STATIC_CHECK(uneven.code == errc::not_a_multiple &&
               uneven.at_fault() == fact::gpus_per_link_domain);
}

TEST_CASE("systems are nodes by name") {
  CONSTEXPR auto known = catalog::find_system("P5.48xlarge");
  STATIC_CHECK(known && known->gpu == &catalog::h100_sxm5_80gb && known->gpus_per_node == 8);
  STATIC_CHECK(catalog::find_system("p5").why().code == errc::unknown_system);
  CONSTEXPR cluster rack = cluster_of(*catalog::find_system("gb200_nvl72"), 18);
  STATIC_CHECK(validate(rack) && total_gpus(rack) == 72 && linked_gpus(rack) == 72);
  STATIC_CHECK([] {
    for (const catalog::node_system& one : catalog::systems)
      if (!validate(cluster_of(one, 2)) || catalog::find_system(one.id)->id != one.id ||
          *one.source == '\0' || one.host_memory <= 100_GB || one.between_nodes < 10_GBps)
        return false;
    return true;
  }());
}

}  // namespace
