#include "time_parameters.hpp"

#include <type_traits>

namespace accuracy {
namespace {

using gpuplan::device_efficiency;
using gpuplan::roofline_time;
using gpuplan::software_costs;
using gpuplan::time_terms;

template <class Value>
double number_of(const Value& value) {
  if constexpr (std::is_arithmetic_v<Value>)
    return value;
  else
    return value.value();
}

template <class Value>
void assign(Value& to, double value) {
  if constexpr (std::is_arithmetic_v<Value>)
    to = value;
  else
    to = Value::from_value(value);
}

template <auto Member>
time_parameter of_device(const char* name, double low, double high, const char* unit = "") {
  return {name,
          unit,
          parameter_owner::device,
          low,
          high,
          [](const roofline_time& model) { return number_of(model.efficiency.*Member); },
          [](roofline_time& model, double value) { assign(model.efficiency.*Member, value); }};
}

template <auto Member>
time_parameter of_framework(const char* name, double low, double high, const char* unit = "") {
  return {name,
          unit,
          parameter_owner::framework,
          low,
          high,
          [](const roofline_time& model) { return number_of(model.setup.framework.costs.*Member); },
          [](roofline_time& model, double value) {
            assign(model.setup.framework.costs.*Member, value);
          }};
}

}  // namespace

const std::vector<time_parameter>& time_parameters() {
  using device = device_efficiency;
  using software = software_costs;
  static const std::vector<time_parameter> all{
      of_device<&device::products>("products", 0.3, 1),
      of_device<&device::products_fp32>("products_fp32", 0.3, 1.05),
      of_device<&device::products_fp8>("products_fp8", 0.2, 1),
      of_device<&device::products_fp4>("products_fp4", 0.1, 1),
      of_device<&device::products_fp8_by_row>("products_fp8_by_row", 0.1, 1),
      of_device<&device::odd_matmuls>("odd_matmuls", 0.05, 1),
      of_device<&device::unaligned_matmuls>("unaligned_matmuls", 0.1, 1),
      of_device<&device::attention_forward>("attention_forward", 0.1, 1),
      of_device<&device::attention_backward>("attention_backward", 0.1, 1),
      of_device<&device::memory>("memory", 0.5, 0.95),
      of_device<&device::functions>("functions", 0.5, 8),
      of_device<&device::sums>("sums", 0.5, 8),
      of_device<&device::softmaxes>("softmaxes", 0.5, 8),
      of_device<&device::kernel_floor>("kernel_floor", 0, 2e-5, "s"),
      of_framework<&software::matmul_rate>("matmul_rate", 0.4, 1.1),
      of_framework<&software::element_rate>("element_rate", 0.3, 2),
      of_framework<&software::routed_moves>("routed_moves", 1, 20),
      of_framework<&software::score_traffic>("score_traffic", 0.3, 4),
      of_framework<&software::host_per_operator>("host_per_operator", 0, 6e-4, "s"),
      of_framework<&software::host_of_backward>("host_of_backward", 0.1, 1.5),
      of_framework<&software::host_per_collective>("host_per_collective", 0, 2e-3, "s"),
      of_framework<&software::host_per_rank>("host_per_rank", 0, 2e-3, "s"),
      of_framework<&software::wait_per_node>("wait_per_node", 0, 2e-3, "s"),
      of_framework<&software::host_per_step>("host_per_step", 0, 0.3, "s"),
      of_framework<&software::hidden_tensor_communication>("hidden_tensor_communication", 0, 1),
      of_framework<&software::hidden_expert_communication>("hidden_expert_communication", 0, 1),
      of_framework<&software::hidden_pipeline_communication>("hidden_pipeline_communication", 0, 1),
      of_framework<&software::gathered_at_most>("gathered_at_most", 1e9, 5e11, "byte/s"),
      of_framework<&software::contention>("contention", 0, 1)};
  return all;
}

std::string owner_name(const roofline_time& model, parameter_owner owner) {
  if (owner == parameter_owner::framework) return model.setup.framework.name;
  const std::string name = model.efficiency.name;
  return name.empty() ? model.on.gpu.architecture : name;
}

const std::vector<time_term>& time_terms_by_name() {
  static const std::vector<time_term> all{
      {"waves", &time_terms::waves},
      {"alignment", &time_terms::alignment},
      {"matmul_bytes", &time_terms::matmul_bytes},
      {"elements", &time_terms::elements},
      {"attention", &time_terms::attention},
      {"ends", &time_terms::ends},
      {"host", &time_terms::host},
      {"latency", &time_terms::latency},
      {"tensor_communication", &time_terms::tensor_communication},
      {"context_communication", &time_terms::context_communication},
      {"expert_communication", &time_terms::expert_communication},
      {"pipeline_communication", &time_terms::pipeline_communication},
      {"gradient_communication", &time_terms::gradient_communication},
      {"parameter_communication", &time_terms::parameter_communication},
      {"contention", &time_terms::contention},
      {"recompute", &time_terms::recompute},
      {"bubble", &time_terms::bubble},
      {"optimizer", &time_terms::optimizer}};
  return all;
}

}  // namespace accuracy
