// Tuned recipes as questions to the planner.

#include "recipes.hpp"

#include <string>
#include <vector>

#include "check.hpp"
#include "compare.hpp"
#include "csv.hpp"
#include "files.hpp"

using namespace accuracy;

namespace {

constexpr const char* models_text =
    "model,hf_id,kind,layers,hidden,ffn,heads,kv_heads,head_dim,vocab,experts,topk,expert_ffn,"
    "hybrid_pattern,gated_mlp,vision_tower\n"
    "llama3_8b,meta-llama/Meta-Llama-3-8B,dense,32,4096,14336,32,8,128,128256,,,,,true,\n"
    "llama3_70b,meta-llama/Meta-Llama-3-70B,dense,80,8192,28672,64,8,128,128256,,,,,true,\n"
    "nano,nvidia/nano,hybrid_moe,52,2688,,32,2,128,131072,128,6,1856,MEM*,false,\n";

constexpr const char* recipe_columns =
    "id,model,task,gpu,gpus,precision,seq_len,micro_batch,global_batch,tp,pp,vpp,cp,ep,"
    "sequence_parallel,pipeline_layout,recompute_granularity,grad_dtype,"
    "use_distributed_optimizer,valid_at_pinned_core\n";

std::vector<comparison> compared(const std::string& recipe) {
  const short_file models(models_text, "recipe_models");
  const short_file recipes(recipe_columns + recipe + "\n", "recipes");
  const std::vector<csv_file> files{read_csv(models.path()), read_csv(recipes.path())};
  const auto found = compare(files, {});
  REQUIRE(found.size() == 2);
  CHECK(found[0].kind == "models of recipes");
  CHECK(found[1].kind == "recipes");
  return found[1].comparisons;
}

std::string refusal_of(const std::string& recipe) {
  const auto rows = compared(recipe);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].what == quantity::accepted);
  CHECK(!rows[0].predicted.value);
  return rows[0].predicted.why_not;
}

}  // namespace

TEST_CASE("a recipe is a question, and its plan one answer") {
  const auto rows = compared(
      "a,llama3_8b,pretrain,h100_sxm5_80gb,8,bf16,8192,1,128,1,1,,2,1,false,,none,bf16,true,true");
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].what == quantity::accepted);
  CHECK(rows[0].predicted.value->whole() == 1);
  CHECK(rows[1].what == quantity::fits);
  CHECK(rows[1].predicted.value->whole() == 1);
  CHECK(rows[2].what == quantity::best_over_recipe);
  // the recipe's plan is one of those that the planner chooses from
  CHECK(rows[2].predicted.value->value() <= 1 + 1e-12);
  CHECK(rows[2].predicted.value->value() > 0.5);
}

TEST_CASE("a recipe that cannot fit is said not to, though others do") {
  // 70 billion parameters in bf16 on each device of 80 GB
  const auto rows = compared(
      "a,llama3_70b,pretrain,h100_sxm5_80gb,64,bf16,8192,1,128,1,1,,1,1,false,,none,bf16,true,"
      "true");
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].predicted.value->whole() == 1);
  CHECK(rows[1].predicted.value->whole() == 0);
}

TEST_CASE("what a recipe has no words for is refused with a reason") {
  CHECK(refusal_of("a,nano,pretrain,h100_sxm5_80gb,8,bf16,8192,1,128,1,1,,1,8,false,,none,bf16,"
                   "true,true")
            .find("hybrid_pattern") != std::string::npos);
  CHECK(refusal_of("a,unheard,pretrain,h100_sxm5_80gb,8,bf16,8192,1,128,1,1,,1,1,false,,none,"
                   "bf16,true,true")
            .find("no file given has its model") != std::string::npos);
  CHECK(refusal_of("a,llama3_8b,pretrain,h100_sxm5_80gb,8,int3,8192,1,128,1,1,,1,1,false,,none,"
                   "bf16,true,true")
            .find("int3") != std::string::npos);
  CHECK(refusal_of("a,llama3_8b,pretrain,h100_sxm5_80gb,8,bf16,8192,3,128,1,1,,1,1,false,,none,"
                   "bf16,true,true")
            .find("do not divide global_batch") != std::string::npos);
  CHECK(refusal_of("a,llama3_8b,pretrain,h100_sxm5_80gb,8,bf16,8192,1,128,3,1,,1,1,false,,none,"
                   "bf16,true,true")
            .find("do not divide its GPUs") != std::string::npos);
  CHECK(refusal_of("a,llama3_8b,pretrain,h100_sxm5_80gb,8,bf16,8192,1,128,1,4,,1,1,false,Et*x|tL,"
                   "none,bf16,true,true")
            .find("pipeline_layout") != std::string::npos);
}

TEST_CASE("a recipe that its own framework rejects is passed over") {
  CHECK(compared("a,llama3_8b,pretrain,h100_sxm5_80gb,8,bf16,8192,1,128,1,1,,1,1,false,,none,bf16,"
                 "true,false")
            .empty());
}
