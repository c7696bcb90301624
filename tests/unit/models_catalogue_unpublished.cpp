#include "check.hpp"

#include <gpuplan/catalog/models.hpp>
#include <gpuplan/parameters.hpp>

#include <cstdint>

// The totals of models whose sources print none, so that no shape changes unnoticed. They come from
// closed forms, one for each kind of model, that a program in another language evaluated; these
// give every published total, too.
namespace {

using namespace gpuplan;

constexpr std::int64_t total(const transformer& model) { return parameters(model).total(); }

TEST_CASE("computed totals: decoders with layer norms") {
  STATIC_CHECK(total(catalog::gpt2) == 124'439'808);
  STATIC_CHECK(total(catalog::gpt2_medium) == 354'823'168);
  STATIC_CHECK(total(catalog::gpt3_125m) == 125'226'240);
  STATIC_CHECK(total(catalog::gpt3_350m) == 355'871'744);
  STATIC_CHECK(total(catalog::gpt3_760m) == 760'300'032);
  STATIC_CHECK(total(catalog::gpt3_1_3b) == 1'315'723'264);
  STATIC_CHECK(total(catalog::gpt3_2_7b) == 2'651'553'280);
  STATIC_CHECK(total(catalog::gpt3_6_7b) == 6'658'404'352);
  STATIC_CHECK(total(catalog::gpt3_13b) == 12'853'386'240);
  STATIC_CHECK(total(catalog::gpt3_175b) == 174'604'259'328);
  STATIC_CHECK(total(catalog::pythia_70m) == 70'426'624);
  STATIC_CHECK(total(catalog::pythia_410m) == 405'334'016);
  STATIC_CHECK(total(catalog::pythia_12b) == 11'846'072'320);
  STATIC_CHECK(total(catalog::opt_125m) == 125'239'296);
  STATIC_CHECK(total(catalog::opt_1_3b) == 1'315'758'080);
  STATIC_CHECK(total(catalog::opt_13b) == 12'853'473'280);
  STATIC_CHECK(total(catalog::opt_30b) == 29'974'540'288);
  STATIC_CHECK(total(catalog::opt_66b) == 65'719'701'504);
  STATIC_CHECK(total(catalog::bloom_1b1) == 1'065'314'304);
  STATIC_CHECK(total(catalog::bloom) == 176'247'271'424);
  STATIC_CHECK(total(catalog::falcon_180b) == 179'522'565'120);
  STATIC_CHECK(total(catalog::mpt_7b) == 6'649'286'656);
  STATIC_CHECK(total(catalog::mpt_30b) == 29'957'200'896);
  STATIC_CHECK(total(catalog::phi_1_5) == 1'418'270'720);
  STATIC_CHECK(total(catalog::starcoder2_15b) == 15'957'889'024);
  STATIC_CHECK(total(catalog::command_r_v01) == 34'980'831'232);
  STATIC_CHECK(total(catalog::command_r_plus) == 103'810'674'688);
}

TEST_CASE("computed totals: LLaMA and decoders of its make") {
  STATIC_CHECK(total(catalog::llama_7b) == 6'738'415'616);
  STATIC_CHECK(total(catalog::llama_33b) == 32'528'943'616);
  STATIC_CHECK(total(catalog::llama_65b) == 65'285'660'672);
  STATIC_CHECK(total(catalog::llama_2_7b) == 6'738'415'616);
  STATIC_CHECK(total(catalog::codellama_7b) == 6'738'546'688);
  STATIC_CHECK(total(catalog::llama_3_2_1b) == 1'235'814'400);
  STATIC_CHECK(total(catalog::smollm2_135m) == 134'515'008);
  STATIC_CHECK(total(catalog::smollm2_1_7b) == 1'711'376'384);
  STATIC_CHECK(total(catalog::yi_34b) == 34'388'917'248);
  STATIC_CHECK(total(catalog::mistral_7b_v0_3) == 7'248'023'552);
  STATIC_CHECK(total(catalog::mistral_nemo_12b) == 12'247'782'400);
  STATIC_CHECK(total(catalog::minitron_4b) == 4'190'509'056);
  STATIC_CHECK(total(catalog::nemotron_3_8b) == 8'540'135'424);
  STATIC_CHECK(total(catalog::nemotron_4_15b) == 15'628'775'424);
  STATIC_CHECK(total(catalog::nemotron_4_340b) == 341'029'195'776);
  STATIC_CHECK(total(catalog::mistral_nemo_minitron_8b) == 8'414'105'600);
  STATIC_CHECK(total(catalog::phi_3_mini_4k) == 3'821'079'552);
  STATIC_CHECK(total(catalog::phi_4_mini) == 3'836'021'760);
}

TEST_CASE("computed totals: Qwen, Gemma, OLMo") {
  STATIC_CHECK(total(catalog::qwen1_5_moe_a2_7b) == 14'315'784'192);
  STATIC_CHECK(total(catalog::qwen2_7b) == 7'615'616'512);
  STATIC_CHECK(total(catalog::qwen2_1_5b) == 1'543'714'304);
  STATIC_CHECK(total(catalog::qwen2_5_0_5b) == 494'032'768);
  STATIC_CHECK(total(catalog::qwen2_5_1_5b) == 1'543'714'304);
  STATIC_CHECK(total(catalog::qwen2_5_14b) == 14'770'033'664);
  STATIC_CHECK(total(catalog::qwen3_1_7b) == 1'720'574'976);
  STATIC_CHECK(total(catalog::qwen3_4b) == 4'022'468'096);
  STATIC_CHECK(total(catalog::qwen3_235b_a22b) == 235'093'634'560);
  STATIC_CHECK(total(catalog::gemma_7b) == 8'537'680'896);
  STATIC_CHECK(total(catalog::gemma_2_9b) == 9'241'705'984);
  STATIC_CHECK(total(catalog::gemma_3_4b_text) == 3'880'263'168);
  STATIC_CHECK(total(catalog::gemma_3_27b_text) == 27'009'346'304);
  STATIC_CHECK(total(catalog::olmo_1b) == 1'176'764'416);
  STATIC_CHECK(total(catalog::olmo_2_1124_7b) == 7'298'617'344);
  STATIC_CHECK(total(catalog::olmo_2_1124_13b) == 13'716'198'400);
  STATIC_CHECK(total(catalog::olmo_3_32b) == 32'233'522'176);
}

TEST_CASE("computed totals: mixtures of experts") {
  STATIC_CHECK(total(catalog::mixtral_8x7b_v0_1) == 46'702'792'704);
  STATIC_CHECK(total(catalog::deepseek_v2) == 235'741'434'880);
  STATIC_CHECK(total(catalog::deepseek_v3) == 682'636'487'424);
  STATIC_CHECK(total(catalog::moonlight_16b_a3b) == 15'960'110'208);
  STATIC_CHECK(total(catalog::dbrx) == 131'596'523'520);
  STATIC_CHECK(total(catalog::gpt_oss_120b) == 116'829'156'672);
  STATIC_CHECK(total(catalog::glm_4_5) == 356'785'898'816);
}

TEST_CASE("computed totals: encoders, and encoders with decoders") {
  STATIC_CHECK(total(catalog::bert_large_uncased) == 335'141'888);
  STATIC_CHECK(total(catalog::xlm_roberta_base) == 278'043'648);
  STATIC_CHECK(total(catalog::xlm_roberta_large) == 559'890'432);
  STATIC_CHECK(total(catalog::all_mpnet_base_v2) == 109'486'464);
  STATIC_CHECK(total(catalog::t5_base) == 222'903'552);
  STATIC_CHECK(total(catalog::t5_v1_1_small) == 76'961'152);
  STATIC_CHECK(total(catalog::t5_v1_1_large) == 783'150'080);
  STATIC_CHECK(total(catalog::t5_v1_1_xl) == 2'849'757'184);
}

TEST_CASE("computed totals: vision, and parts of composite models") {
  STATIC_CHECK(total(catalog::vit_base_patch16_224) == 86'567'656);
  STATIC_CHECK(total(catalog::vit_huge_patch14_518) == 633'470'440);
  STATIC_CHECK(total(catalog::clip_vit_large_patch14_vision) == 303'966'208);
  STATIC_CHECK(total(catalog::clip_vit_large_patch14_text) == 123'650'304);
  STATIC_CHECK(total(catalog::siglip_so400m_patch14_224_text) == 449'679'600);
  STATIC_CHECK(total(catalog::llama_2_7b_vocab32064) == 6'738'939'904);
  STATIC_CHECK(total(catalog::dinov2_large_reg4_224) == 303'230'976);
  STATIC_CHECK(total(catalog::siglip_so400m_patch14_224_vision) == 427'680'704);
  STATIC_CHECK(total(catalog::qwen3_1_7b_first12) == 1'225'315'328);
}

}  // namespace
