// Configurations of NVIDIA's, which their sizes and the recipe that they name describe.

#include "published_exemplar.hpp"

#include <string>

#include "check.hpp"
#include "csv.hpp"
#include "files.hpp"

using namespace accuracy;

namespace {

constexpr const char* columns =
    "id,source,gpu,gpus,layers,hidden,heads,kv_heads,head_dim,ffn,gated_mlp,vocab,norm,causal,"
    "attention,seq_len,micro_batch,grad_accum,dp,tp,pp,vpp,sequence_parallel,zero_stage,precision,"
    "grad_bytes,optimizer,recompute,fits,notes\n";

struct answered {
  described_recipe recipe;
  prediction fits;
};
answered answer_to(const std::string& cells) {
  const short_file file(columns + cells + "\n");
  const csv_file read = read_csv(file.path());
  const row one(read, read.rows[0]);
  return {describe_exemplar(one), exemplar_fits(one)};
}

const std::string llama_8b = "gb300,8,32,4096,32,8,128,14336,1,128256,rmsnorm,1,gqa,8192,";
const std::string recipe =
    "vendor configuration; recompute/offload from recipe "
    "llama3_8b_pretrain_8gpu_gb300_fp8mx_config";

}  // namespace

TEST_CASE("a published configuration fits as the recipe that it names casts") {
  const answered small =
      answer_to("a,nvidia_exemplar," + llama_8b + "4,4,8,1,1,1,0,1,fp8,2,adam,none,1," + recipe);
  CHECK(small.recipe.setup.precision.scaling == gpuplan::scaling_kind::micro);
  CHECK(small.recipe.setup.precision.quantised_weights);
  CHECK(small.fits.value->whole() == 1);
  const answered large =
      answer_to("a,nvidia_exemplar," + llama_8b + "64,4,8,1,1,1,0,1,fp8,2,adam,none,1," + recipe);
  CHECK(large.fits.value->whole() == 0);
  // 126 layers, and both ends, in 32 chunks of 4.
  const answered split = answer_to(
      "a,nvidia_exemplar,gb300,512,126,16384,128,8,128,53248,1,128256,rmsnorm,1,gqa,8192,1,192,16,"
      "4,8,4,1,1,fp8,2,adam,none,1,offload from recipe "
      "llama31_405b_pretrain_128gpu_gb300_fp8cs_config");
  CHECK(split.recipe.setup.parallelism.split.head_layers == 1);
  CHECK(split.fits.value->whole() == 1);
}

TEST_CASE("what a published configuration does not say is its reason") {
  const auto reason = [](const std::string& cells) { return answer_to(cells).fits.why_not; };
  CHECK(reason("a,nvidia_exemplar,b300_sxm,8,118,,,,,,,,,1,,8192,1,6,4,2,1,1,1,1,fp8,,adam,,1,x")
            .find("layers are of several kinds") != std::string::npos);
  CHECK(reason("a,nvidia_exemplar," + llama_8b + "4,4,8,1,1,1,0,1,fp8,2,adam,,1,x")
            .find("no recipe of its GPUs") != std::string::npos);
  CHECK(reason("a,nvidia_exemplar," + llama_8b + "4,4,8,1,1,1,0,1,fp8,2,muon,none,1," + recipe)
            .find("Muon") != std::string::npos);
  CHECK(reason("a,nvidia_exemplar," + llama_8b + "4,4,8,1,1,1,0,1,fp8,2,adam,none,1,x")
            .find("precision ''") != std::string::npos);
}
