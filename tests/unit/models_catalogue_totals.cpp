#include "check.hpp"

#include <gpuplan/catalog/models.hpp>
#include <gpuplan/parameters.hpp>

#include <cstdint>

// Every published total, as it was printed: what the model has, plus what the total counts besides
// or does not count. Integers are typed here, not read from the catalogue.
namespace {

using namespace gpuplan;

template <class Model>
constexpr std::int64_t total(const Model& model) {
  return parameters(model).total();
}

TEST_CASE("published totals: decoders with layer norms") {
  STATIC_CHECK(total(catalog::gpt2_large) == 774'030'080);
  STATIC_CHECK(total(catalog::gpt2_xl) == 1'557'611'200);
  STATIC_CHECK(total(catalog::gpt_j_6b) == 6'050'882'784);
  STATIC_CHECK(total(catalog::gpt_neox_20b) == 20'554'567'680);
  STATIC_CHECK(total(catalog::pythia_160m) == 162'322'944);
  STATIC_CHECK(total(catalog::pythia_1b) == 1'011'781'632);
  STATIC_CHECK(total(catalog::pythia_1_4b) == 1'414'647'808);
  STATIC_CHECK(total(catalog::pythia_2_8b) == 2'775'208'960);
  STATIC_CHECK(total(catalog::pythia_6_9b) == 6'857'302'016);
  STATIC_CHECK(total(catalog::opt_350m) == 331'196'416);
  STATIC_CHECK(total(catalog::opt_2_7b) == 2'651'596'800);
  STATIC_CHECK(total(catalog::opt_6_7b) == 6'658'473'984);
  STATIC_CHECK(total(catalog::bloom_560m) == 559'214'592);
  STATIC_CHECK(total(catalog::bloom_1b7) == 1'722'408'960);
  STATIC_CHECK(total(catalog::bloom_3b) == 3'002'557'440);
  STATIC_CHECK(total(catalog::bloom_7b1) == 7'069'016'064);
  STATIC_CHECK(total(catalog::falcon_7b) + 295'469'056 == 7'217'189'760);
  STATIC_CHECK(total(catalog::falcon_40b) + 532'676'608 == 41'835'970'560);
  STATIC_CHECK(total(catalog::starcoder2_3b) == 3'030'371'328);
  STATIC_CHECK(total(catalog::starcoder2_7b) == 7'173'923'840);
  STATIC_CHECK(total(catalog::phi_2) == 2'779'683'840);
}

TEST_CASE("published totals: LLaMA and decoders of its make") {
  STATIC_CHECK(total(catalog::llama_13b) == 13'015'864'320);
  STATIC_CHECK(total(catalog::llama_2_13b) == 13'015'864'320);
  STATIC_CHECK(total(catalog::llama_2_70b) == 68'976'648'192);
  STATIC_CHECK(total(catalog::codellama_34b) == 33'743'970'304);
  STATIC_CHECK(total(catalog::codellama_13b) == 13'016'028'160);
  STATIC_CHECK(total(catalog::codellama_70b) == 68'976'910'336);
  STATIC_CHECK(total(catalog::llama_3_8b) == 8'030'261'248);
  STATIC_CHECK(total(catalog::llama_3_70b) == 70'553'706'496);
  STATIC_CHECK(total(catalog::llama_3_1_8b) == 8'030'261'248);
  STATIC_CHECK(total(catalog::llama_3_1_70b) == 70'553'706'496);
  STATIC_CHECK(total(catalog::llama_3_1_405b) == 405'853'388'800);
  STATIC_CHECK(total(catalog::llama_3_2_3b) == 3'212'749'824);
  STATIC_CHECK(total(catalog::tinyllama_1_1b) == 1'100'048'384);
  STATIC_CHECK(total(catalog::smollm2_360m) == 361'821'120);
  STATIC_CHECK(total(catalog::yi_6b) == 6'061'035'520);
  STATIC_CHECK(total(catalog::yi_9b) == 8'829'407'232);
  STATIC_CHECK(total(catalog::mistral_7b_v0_1) == 7'241'732'096);
  STATIC_CHECK(total(catalog::mistral_7b_v0_2) == 7'241'732'096);
  STATIC_CHECK(total(catalog::falcon3_1b) == 1'669'408'768);
  STATIC_CHECK(total(catalog::falcon3_3b) == 3'227'655'168);
  STATIC_CHECK(total(catalog::falcon3_7b) == 7'455'550'464);
  STATIC_CHECK(total(catalog::falcon3_10b) == 10'305'653'760);
  STATIC_CHECK(total(catalog::mistral_small_24b_2501) == 23'572'403'200);
  STATIC_CHECK(total(catalog::llama_3_1_nemotron_nano_8b) == 8'030'261'248);
  STATIC_CHECK(total(catalog::phi_3_medium_4k) == 13'960'238'080);
  STATIC_CHECK(total(catalog::phi_4) == 14'659'507'200);
}

TEST_CASE("published totals: Qwen") {
  STATIC_CHECK(total(catalog::qwen1_5_0_5b) == 619'570'176);
  STATIC_CHECK(total(catalog::qwen2_72b) == 72'706'203'648);
  STATIC_CHECK(total(catalog::qwen2_0_5b) == 494'032'768);
  STATIC_CHECK(total(catalog::qwen2_5_3b) == 3'085'938'688);
  STATIC_CHECK(total(catalog::qwen2_5_7b) == 7'615'616'512);
  STATIC_CHECK(total(catalog::qwen2_5_32b) == 32'763'876'352);
  STATIC_CHECK(total(catalog::qwen2_5_72b) == 72'706'203'648);
  STATIC_CHECK(total(catalog::deepseek_r1_distill_qwen_1_5b) == 1'777'088'000);
  STATIC_CHECK(total(catalog::qwen3_0_6b) == 596'049'920);
  STATIC_CHECK(total(catalog::qwen3_8b) == 8'190'735'360);
  STATIC_CHECK(total(catalog::qwen3_14b) == 14'768'307'200);
  STATIC_CHECK(total(catalog::qwen3_32b) == 32'762'123'264);
  STATIC_CHECK(total(catalog::qwen3_5_4b) == 4'205'751'296);
  STATIC_CHECK(total(catalog::qwen3_5_9b) == 8'953'803'264);
  STATIC_CHECK(total(catalog::qwen3_5_27b) == 26'895'998'464);
}

TEST_CASE("published totals: Gemma and OLMo") {
  STATIC_CHECK(total(catalog::gemma_2b) == 2'506'172'416);
  STATIC_CHECK(total(catalog::gemma_2_2b) == 2'614'341'888);
  STATIC_CHECK(total(catalog::gemma_2_27b) == 27'227'128'320);
  STATIC_CHECK(total(catalog::gemma_3_270m) == 268'098'176);
  STATIC_CHECK(total(catalog::gemma_3_1b) == 999'885'952);
  STATIC_CHECK(total(catalog::gemma_3_12b_text) == 11'766'034'176);
  STATIC_CHECK(total(catalog::olmo_7b) == 6'888'095'744);
  STATIC_CHECK(total(catalog::olmo_2_0425_1b) == 1'484'916'736);
  STATIC_CHECK(total(catalog::olmo_2_0325_32b) == 32'234'279'936);
  STATIC_CHECK(total(catalog::olmo_3_7b) == 7'298'011'136);
}

TEST_CASE("published totals: mixtures of experts") {
  STATIC_CHECK(total(catalog::mixtral_8x22b_v0_1) == 140'630'071'296);
  STATIC_CHECK(total(catalog::qwen3_30b_a3b) == 30'532'122'624);
  STATIC_CHECK(total(catalog::qwen3_coder_480b_a35b) == 480'154'875'392);
  STATIC_CHECK(total(catalog::deepseek_moe_16b) == 16'375'728'128);
  STATIC_CHECK(total(catalog::deepseek_v2_lite) == 15'706'484'224);
  STATIC_CHECK(total(catalog::deepseek_r1) + 1'894'898'576 == 684'531'386'000);
  STATIC_CHECK(total(catalog::kimi_k2) + 62'498'608 == 1'026'470'731'056);
  STATIC_CHECK(total(catalog::olmoe_1b_7b) == 6'919'161'856);
  STATIC_CHECK(total(catalog::grok_1) == 315'684'820'992);
  STATIC_CHECK(total(catalog::gpt_oss_20b) == 20'914'757'184);
  STATIC_CHECK(total(catalog::glm_4_5_air) + 1'241'513'984 == 110'468'824'832);
}

TEST_CASE("published totals: encoders, and encoders with decoders") {
  STATIC_CHECK(total(catalog::bert_base_uncased) == 109'482'240);
  STATIC_CHECK(total(catalog::roberta_base) - 2'304 == 124'052'736);
  STATIC_CHECK(total(catalog::roberta_large) - 3'072 == 354'307'072);
  STATIC_CHECK(total(catalog::distilbert_base_uncased) == 66'362'880);
  STATIC_CHECK(total(catalog::all_minilm_l6_v2) == 22'713'216);
  STATIC_CHECK(total(catalog::all_minilm_l12_v2) == 33'360'000);
  STATIC_CHECK(total(catalog::t5_small) == 60'506'624);
  STATIC_CHECK(total(catalog::t5_large) == 737'668'096);
  STATIC_CHECK(total(catalog::t5_3b) == 2'851'598'336);
  STATIC_CHECK(total(catalog::t5_11b) == 11'307'321'344);
  STATIC_CHECK(total(catalog::t5_v1_1_base) == 247'577'856);
  STATIC_CHECK(total(catalog::t5_v1_1_xxl) == 11'135'332'352);
}

TEST_CASE("published totals: vision, and models of several parts") {
  STATIC_CHECK(total(catalog::vit_large_patch16_224) == 304'326'632);
  STATIC_CHECK(total(catalog::vit_huge_patch14_224) == 632'045'800);
  STATIC_CHECK(total(catalog::clip_vit_large_patch14) == 427'616'513);
  STATIC_CHECK(total(catalog::siglip_so400m_patch14_224) + 272 == 877'360'578);
  STATIC_CHECK(total(catalog::openvla_7b) == 7'541'237'184);
  STATIC_CHECK(total(catalog::gr00t_n1_5_3b_backbone) == 1'655'357'376);
  STATIC_CHECK(total(catalog::gr00t_n1_5_3b) == 2'724'163'520);
}

}  // namespace
