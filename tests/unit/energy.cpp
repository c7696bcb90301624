#include <gpuplan/catalog/energy.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/energy.hpp>

#include "check.hpp"

namespace {

using namespace gpuplan;

constexpr bool near(double a, double b, double by = 1e-12) {
  return detail::abs(a - b) <= by * detail::abs(b);
}

constexpr step_breakdown one_of_each{.data = 1_s,
                                     .forward = 2_s,
                                     .backward = 4_s,
                                     .recompute = 2_s,
                                     .tensor_communication = 1_s,
                                     .parameter_communication = 1_s,
                                     .bubble = 1_s,
                                     .optimizer = 3_s,
                                     .host = 1_s};
constexpr phase_draws draws{.computing = 1, .moving = 0.5, .communicating = 0.25, .waiting = 0.125};

constexpr run_time_parts parts{.training = 90_h,
                               .saving = 1_h,
                               .lost = 5_h,
                               .detection = 1_h,
                               .restart = 2_h,
                               .waiting = 1_h,
                               .failures = 3};

constexpr power host_of(const gpu_spec& gpu) { return *catalog::host_power_per_gpu(gpu); }

constexpr bool every_grid_is_found() {
  for (const catalog::grid_intensity& each : catalog::grid_intensities)
    if (!(each.grams_per_kWh > 0 && each.grams_per_kWh < 1500) ||
        catalog::find_grid(each.id) != &each)
      return false;
  return true;
}

}  // namespace

TEST_CASE("a step draws what its phases do, for as long as they take") {
  STATIC_CHECK(near(*average_draw(one_of_each, draws), (8 + 1.5 + 0.5 + 0.375) / 16));
  // A step of one phase draws what that does.
  STATIC_CHECK(near(*average_draw({.backward = 3_ms}, h100_draws), 0.97));
  STATIC_CHECK(near(*average_draw({.host = 3_ms}, h100_draws), 0.2));
  STATIC_CHECK(near(*average_draw({.gradient_communication = 1_s}, h100_draws), 0.53));
}

TEST_CASE("a run draws in training, between, and for its host") {
  CONSTEXPR run_draw draw{.training = 600_W, .waiting = 100_W, .host = 300_W, .pue = 1.2};
  // 95 h of 600 W, 5 h of 100 W, 100 h of 300 W
  STATIC_CHECK(near(in(*energy_used(parts, 8, draw), 1_kWh), 1.2 * 8 * (57 + 0.5 + 30)));
  STATIC_CHECK(near(in(*energy_used(parts, 1, {.training = 1_kW, .waiting = 1_kW}), 1_kWh), 100));
  STATIC_CHECK(near(*carbon_kg(1000_kWh, 56), 56));
  STATIC_CHECK(*carbon_kg(1_kWh, 0) == 0);
}

// Who measured, or said how it was computed.
TEST_CASE("published energies") {
  // BLOOM: 1,082,990 hours of an A100 at its TDP are 433,196 kWh (Luccioni et al. 2022).
  STATIC_CHECK(
      near(in(*energy_used({.training = 1'082'990_h}, 1, {.training = 400_W}), 1000_kWh), 433.196));
  // OPT's and LLaMA's table: TDP, and a PUE of 1.1, for 1,022,362 hours: 449 MWh.
  STATIC_CHECK(near(
      in(*energy_used({.training = 1'022'362_h}, 1, {.training = 400_W, .pue = 1.1}), 1000_kWh),
      449,
      2e-3));
  // A V100 with its host was measured at 330 W in training GPT-3 (Patterson et al. 2021).
  CONSTEXPR double v100 = in(host_of(catalog::v100_sxm2_32gb) + h100_draws.computing * 300_W, 1_W);
  STATIC_CHECK(near(v100, 330, 0.08));
  // Eight H100 and their host were seen at 76 % of 10.2 kW in transformers (Newkirk et al. 2025,
  // arXiv:2506.14551) and at 8.4 kW at most.
  CONSTEXPR double h100 =
      in(8 * (host_of(catalog::h100_sxm5_80gb) + h100_draws.computing * 700_W), 1_kW);
  STATIC_CHECK(near(h100, 0.76 * 10.2, 0.08));
  STATIC_CHECK(h100 < 8.4);
}

TEST_CASE("the catalogue of power and grids") {
  STATIC_CHECK(!catalog::host_power_per_gpu(catalog::rtx_4090));
  STATIC_CHECK(every_grid_is_found());
  STATIC_CHECK(catalog::find_grid("france")->grams_per_kWh == 56);
  STATIC_CHECK(catalog::find_grid("atlantis") == nullptr);
  STATIC_CHECK(catalog::find_pue("survey")->pue == 1.56);
  STATIC_CHECK(catalog::find_pue("") == nullptr);
}

TEST_CASE("what makes no sense is refused") {
  STATIC_CHECK(average_draw({}, draws).why().code == errc::not_positive);
  STATIC_CHECK(average_draw({.host = 1_s}, {.computing = 1}).why().code == errc::not_positive);
  STATIC_CHECK(average_draw({.host = 1_s}, {.computing = 1.5, .waiting = 1}).why().code ==
               errc::out_of_bounds);
  STATIC_CHECK(average_draw({.forward = 2_s, .host = -1_s}, draws).why().code == errc::negative);
  STATIC_CHECK(
      average_draw({.forward = duration::from_value(detail::infinity)}, draws).why().code ==
      errc::not_finite);
  STATIC_CHECK(energy_used(parts, 0, {.training = 1_W}).why().code == errc::out_of_bounds);
  STATIC_CHECK(energy_used(parts, 1, {}).why().code == errc::not_positive);
  STATIC_CHECK(energy_used(parts, 1, {.training = 1_W, .host = -1_W}).why().code == errc::negative);
  STATIC_CHECK(energy_used(parts, 1, {.training = 1_W, .pue = 0.5}).why().code ==
               errc::out_of_bounds);
  STATIC_CHECK(energy_used({}, 1, {.training = 1_W}).why().code == errc::not_positive);
  STATIC_CHECK(carbon_kg(energy{}, 1).why().code == errc::not_positive);
  STATIC_CHECK(carbon_kg(1_kWh, -1).why().code == errc::negative);
  STATIC_CHECK(carbon_kg(1_kWh, detail::not_a_number).why().code == errc::not_finite);
}
