#include <gpuplan/catalog/implementations.hpp>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "check.hpp"
#include "gpuplan_runs.hpp"
#include "json_answer.hpp"

namespace {

using nlohmann::json;

outcome frameworks_listed(const std::vector<std::string>& arguments) {
  return output_of_command("frameworks", arguments);
}

const json& framework_row(const json& rows, const std::string& name) {
  for (const json& row : rows)
    if (row["framework"] == name) return row;
  FAIL("no row of " << name);
  return rows[0];
}

}  // namespace

TEST_CASE("all frameworks are listed") {
  const json rows = json_answer(frameworks_listed, std::vector<std::string>{});
  CHECK(rows.size() == gpuplan::catalog::frameworks.size());
}

TEST_CASE("of a model it is said which can train it, with what, and why the others cannot") {
  const json rows = json_answer(frameworks_listed, std::vector<std::string>{"llama-3.2-1b"});
  REQUIRE(rows.size() == gpuplan::catalog::frameworks.size());
  const json& llama = framework_row(rows, "llama");
  CHECK(llama["why_not"].is_null());
  CHECK(has(llama["engines"], "fsdp2"));
  CHECK(has(llama["engines"], "deepspeed"));
  CHECK(!has(llama["engines"], "megatron"));
  CHECK(has(llama["precisions"], "bf16-pure"));
  CHECK(has(llama["recomputation"], "full"));
  CHECK(has(llama["adapters"], "QLoRA"));
  const json& megatron = framework_row(rows, "megatron-core");
  CHECK(megatron["engines"] == "megatron");
  CHECK(has(megatron["parallelism"], "tensor, pipeline"));
  const json& bert = framework_row(rows, "bert");
  CHECK(bert["engines"].is_null());
  CHECK(!bert["why_not"].get<std::string>().empty());
  // What is listed works.
  for (const json& row : rows) {
    if (!row["why_not"].is_null()) continue;
    CAPTURE(row.dump());
    const std::string name = row["framework"];
    const std::string first = row["precisions"].get<std::string>();
    const std::string precision = first.substr(0, first.find(','));
    const std::string engines = row["engines"];
    if (engines.find("ddp") == std::string::npos) continue;
    CHECK(
        output_of_command("memory", {"llama-3.2-1b", "--framework", name, "--precision", precision})
            .status == 0);
  }
  const outcome text = frameworks_listed({"mixtral-8x7b"});
  CHECK(text.status == 0);
  CHECK(has(text.out, "mixtral-8x7b-v0.1: frameworks that train it"));
  CHECK(has(text.out, "And why the others do not"));
  CHECK(frameworks_listed({"gr00t-n1.5-3b-backbone"}).status == 2);
  const outcome none = frameworks_listed({"grok-1"});
  CHECK(none.status == 0);
  CHECK(has(none.out, "grok-1: none of the frameworks runs it: num_experts 8 is in the way of "));
  CHECK(has(none.out, "; norm_at around of "));
  CHECK(!has(none.out, "the others"));
}

TEST_CASE("what a framework divides is listed, whatever the degree and beside what") {
  const json rows = json_answer(frameworks_listed, std::vector<std::string>{"deepseek-v3"});
  // 61 layers that two stages do not divide alike, and experts beside which a sequence is divided.
  CHECK(framework_row(rows, "megatron-te")["parallelism"] == "tensor, pipeline, context, expert");
  const json of_llama = json_answer(frameworks_listed, std::vector<std::string>{"llama-3-8b"});
  CHECK(framework_row(of_llama, "megatron-fsdp")["engines"] == "megatron_fsdp");
  // stages beside which weights stay whole
  CHECK(framework_row(of_llama, "torchtitan")["parallelism"] == "tensor, pipeline, context");
  const json& new_torchtitan = framework_row(of_llama, "torchtitan-2026");
  CHECK(new_torchtitan["engines"] == "fsdp2");
  CHECK(!has(new_torchtitan["precisions"], "fp16"));
  const outcome plan = planned({"llama-3-8b",
                                "--framework",
                                "megatron-fsdp",
                                "--gpu",
                                "h100-sxm",
                                "--batch",
                                "64",
                                "--format",
                                "json"});
  CAPTURE(plan.err);
  REQUIRE(plan.status == 0);
  CHECK(json::parse(plan.out)["answer"][0]["zero_stage"] == 3);
}
