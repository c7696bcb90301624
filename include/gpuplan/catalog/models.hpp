#pragma once

// The models: shapes and published totals, and the look-up by name. The shapes are data of
// models/*.hpp, with their sources; projects are named as they are on GitHub, with the version that
// was read. To add a model, copy a similar one, and add it to `models` below: the tests check its
// parameters against the published total.

#include <gpuplan/catalog/models/bert.hpp>
#include <gpuplan/catalog/models/deepseek.hpp>
#include <gpuplan/catalog/models/gemma.hpp>
#include <gpuplan/catalog/models/gpt.hpp>
#include <gpuplan/catalog/models/llama.hpp>
#include <gpuplan/catalog/models/nemotron.hpp>
#include <gpuplan/catalog/models/olmo.hpp>
#include <gpuplan/catalog/models/others.hpp>
#include <gpuplan/catalog/models/phi.hpp>
#include <gpuplan/catalog/models/qwen.hpp>
#include <gpuplan/catalog/models/sequences.hpp>
#include <gpuplan/catalog/models/t5.hpp>
#include <gpuplan/catalog/models/vision.hpp>
#include <gpuplan/catalog/models/vision_language.hpp>
#include <gpuplan/catalog/models/vla.hpp>
#include <gpuplan/detail/text.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/result.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpuplan::catalog {

/// A model as it was published. Where `published_parameters` is known and there is a shape, it is
/// `parameters(shape).total() + published_extra`.
struct published_model {
  const char* id = "";
  const transformer* shape = nullptr;      // one of these two,
  const composite_model* parts = nullptr;  // or none where no source has the shape
  // Which of them: with -fsanitize=undefined, g++ compares no address with nullptr while compiling.
  bool has_shape = false;
  bool has_parts = false;
  std::int64_t published_parameters = 0;  // exact; 0: no exact total was found
  std::int64_t published_extra = 0;       // what of it are no parameters of the shape
  const char* note = "";    // what these are, which copy was counted, why there is no shape
  const char* source = "";  // of the total
};

namespace model_data {

/// A model with a shape: a transformer, or parts in one step. `total`: its published parameters.
constexpr published_model entry(const transformer& shape,
                                std::int64_t total = 0,
                                const char* source = "",
                                const char* note = "",
                                std::int64_t extra = 0) {
  return {shape.name, &shape, nullptr, true, false, total, extra, note, source};
}
constexpr published_model entry(const composite_model& parts,
                                std::int64_t total = 0,
                                const char* source = "",
                                const char* note = "",
                                std::int64_t extra = 0) {
  return {parts.name, nullptr, &parts, false, true, total, extra, note, source};
}
/// A model whose shape is not described; `note` says why.
constexpr published_model shapeless(const char* id,
                                    const char* note,
                                    std::int64_t total = 0,
                                    const char* source = "") {
  return {id, nullptr, nullptr, false, false, total, 0, note, source};
}

// Sources of several totals. `safetensors.total` counts the elements of a checkpoint.
inline constexpr const char* keras_hub =
    "keras-team/keras-hub@71453d0, metadata.params of its preset";
inline constexpr const char* llmfit =
    "Hugging Face Hub, safetensors.total, in tetrabit/llmfit@82b3e1c";
inline constexpr const char* llmfit_fork =
    "Hugging Face Hub, safetensors.total, in sammcj/llmfit@9e7ac95";
inline constexpr const char* llmfit_1_1_17 =
    "Hugging Face Hub, safetensors.total, in AlexsJones/llmfit 1.1.17";
inline constexpr const char* mteb = "embeddings-benchmark/mteb@a905523, n_parameters";
inline constexpr const char* pythia_card = "EleutherAI/pythia, table of the model card";
inline constexpr const char* together = "together's Python client, model_param_count";
inline constexpr const char* counted = "the parameters of transformers 5.23's class, of this shape";
inline constexpr const char* torchvision = "pytorch/vision@07a929e, num_params";

inline constexpr const char* row_of_masks =
    "a row that stands for what is masked; a step here masks nothing, leaves out no layer, and has "
    "the mean of the loss";
inline constexpr const char* language_alone = "of a copy for language alone, likewise";

inline constexpr published_model models[] = {
    entry(gpt2),
    entry(gpt2_medium),
    entry(gpt2_large, 774'030'080, keras_hub),
    entry(gpt2_xl, 1'557'611'200, keras_hub),
    entry(gpt3_125m),
    entry(gpt3_350m),
    entry(gpt3_760m),
    entry(gpt3_1_3b),
    entry(gpt3_2_7b),
    entry(gpt3_6_7b),
    entry(gpt3_13b),
    entry(gpt3_175b),
    entry(gpt_j_6b, 6'050'882'784, "a LoRA program's print"),
    entry(gpt_neox_20b, 20'554'567'680, "the model card"),
    entry(pythia_70m),
    entry(pythia_160m, 162'322'944, pythia_card),
    entry(pythia_410m),
    entry(pythia_1b, 1'011'781'632, pythia_card),
    entry(pythia_1_4b, 1'414'647'808, pythia_card),
    entry(pythia_2_8b, 2'775'208'960, pythia_card),
    entry(pythia_6_9b, 6'857'302'016, pythia_card),
    entry(pythia_12b),
    entry(opt_125m),
    entry(
        opt_350m, 331'196'416, "huggingface/peft@5d602fd peft_model_config.md, less the adapters"),
    entry(opt_1_3b),
    entry(opt_2_7b, 2'651'596'800, "log of a checkpoint of 516 tensors"),
    entry(opt_6_7b,
          6'658'473'984,
          "huggingface/peft@5d602fd Finetune_opt_bnb_peft.ipynb, less the adapters"),
    entry(opt_13b),
    entry(opt_30b),
    entry(opt_66b),
    entry(bloom_560m, 559'214'592, keras_hub),
    entry(bloom_1b1),
    entry(bloom_1b7, 1'722'408'960, keras_hub),
    entry(bloom_3b, 3'002'557'440, keras_hub),
    entry(bloom_7b1, 7'069'016'064, "MrYxJ/calculate-flops.pytorch@29ca584 README.md"),
    entry(bloom),
    entry(falcon_7b, 7'217'189'760, llmfit, "the head, tied, is stored once more", 295'469'056),
    entry(falcon_40b,
          41'835'970'560,
          "a registry of models, TII",
          "the head, tied, is stored once more",
          532'676'608),
    entry(falcon_180b),
    entry(mpt_7b),
    entry(mpt_30b),
    entry(llama_7b),
    entry(llama_13b, 13'015'864'320, "a table of counts of LLaMA 7B, 13B and 30B"),
    entry(llama_33b),
    entry(llama_65b),
    entry(llama_2_7b),
    entry(llama_2_13b, 13'015'864'320, together),
    entry(llama_2_70b, 68'976'648'192, together),
    entry(codellama_7b),
    entry(codellama_13b, 13'016'028'160, llmfit_1_1_17),
    entry(codellama_34b, 33'743'970'304, llmfit_fork, "of the Instruct version"),
    entry(codellama_70b, 68'976'910'336, llmfit_1_1_17),
    entry(llama_3_8b, 8'030'261'248, llmfit_fork),
    entry(llama_3_70b, 70'553'706'496, llmfit_fork, "of the Instruct version"),
    entry(llama_3_1_8b, 8'030'261'248, llmfit),
    entry(llama_3_1_70b, 70'553'706'496, llmfit_fork),
    entry(llama_3_1_405b, 405'853'388'800, llmfit),
    entry(llama_3_2_1b),
    entry(llama_3_2_3b, 3'212'749'824, llmfit_fork),
    entry(tinyllama_1_1b, 1'100'048'384, llmfit_fork, "of the Chat version"),
    entry(smollm2_135m),
    entry(smollm2_360m, 361'821'120, llmfit_fork),
    entry(smollm2_1_7b),
    entry(smollm3_3b, 3'075'098'624, counted),
    entry(falcon3_1b, 1'669'408'768, llmfit_1_1_17),
    entry(falcon3_3b, 3'227'655'168, llmfit_1_1_17),
    entry(falcon3_7b, 7'455'550'464, llmfit_1_1_17),
    entry(falcon3_10b, 10'305'653'760, llmfit_1_1_17),
    entry(mistral_7b_v0_1, 7'241'732'096, llmfit),
    entry(mistral_7b_v0_2, 7'241'732'096, llmfit_1_1_17, "of the Instruct version"),
    entry(mistral_7b_v0_3),
    entry(mistral_nemo_12b),
    entry(ministral_8b_2410, 8'019'808'256, counted),
    entry(mistral_small_24b_2501,
          23'572'403'200,
          llmfit_fork,
          "of stelterlab's AWQ copy of the Instruct version, unpacked"),
    entry(llama_4_scout_17b_16e, 107'769'861'120, counted, "for language alone"),
    entry(llama_4_maverick_17b_128e, 400'711'848'960, counted, "for language alone"),
    entry(mixtral_8x7b_v0_1),
    entry(mixtral_8x22b_v0_1, 140'630'071'296, llmfit_fork, "of the Instruct version"),
    entry(qwen1_5_0_5b, 619'570'176, llmfit_fork),
    entry(qwen2_7b),
    entry(qwen2_72b, 72'706'203'648, llmfit_fork),
    entry(qwen2_0_5b, 494'032'768, llmfit_fork, "of the Instruct version"),
    entry(qwen2_1_5b),
    entry(qwen2_5_0_5b),
    entry(qwen2_5_1_5b),
    entry(qwen2_5_3b, 3'085'938'688, llmfit_fork),
    entry(qwen2_5_7b, 7'615'616'512, llmfit_fork),
    entry(qwen2_5_14b),
    entry(qwen2_5_32b, 32'763'876'352, llmfit_fork),
    entry(qwen2_5_72b, 72'706'203'648, llmfit_fork),
    entry(deepseek_r1_distill_qwen_1_5b, 1'777'088'000, llmfit_1_1_17),
    entry(qwen1_5_moe_a2_7b),
    entry(qwen3_0_6b, 596'049'920, keras_hub),
    entry(qwen3_1_7b),
    entry(qwen3_4b),
    entry(qwen3_8b, 8'190'735'360, llmfit),
    entry(qwen3_14b, 14'768'307'200, llmfit_fork),
    entry(qwen3_32b,
          32'762'123'264,
          "Hugging Face Hub, safetensors.total, in shayne-snap/llmpole@f9cd30c"),
    entry(qwen3_30b_a3b, 30'532'122'624, llmfit_fork),
    entry(qwen3_235b_a22b),
    entry(qwen3_coder_480b_a35b, 480'154'875'392, llmfit_fork, "of the Instruct version"),
    entry(qwen3_next_80b_a3b, 79'674'391'296, counted, "without multi-token prediction"),
    entry(qwen3_5_35b_a3b, 34'660'610'688, counted, "for language alone, likewise"),
    entry(qwen3_5_4b, 4'205'751'296, llmfit_1_1_17, language_alone),
    entry(qwen3_5_9b, 8'953'803'264, llmfit_1_1_17, language_alone),
    entry(qwen3_5_27b, 26'895'998'464, llmfit_1_1_17, language_alone),
    entry(gemma_2b, 2'506'172'416, llmfit),
    entry(gemma_7b),
    entry(gemma_2_2b, 2'614'341'888, llmfit, "of the instruction-tuned version"),
    entry(gemma_2_9b),
    entry(gemma_2_27b, 27'227'128'320, llmfit_fork, "of the instruction-tuned version"),
    entry(gemma_3_270m, 268'098'176, llmfit),
    entry(gemma_3_1b, 999'885'952, keras_hub),
    entry(gemma_3_4b_text),
    entry(gemma_3_12b_text,
          11'766'034'176,
          "an audit of parameters on the meta device; the Hub's of cjvt/GaMS3-12B-Instruct"),
    entry(gemma_3_27b_text),
    entry(phi_1_5),
    entry(phi_2, 2'779'683'840, llmfit_fork),
    entry(phi_3_mini_4k),
    entry(phi_3_5_mini, 3'821'079'552, counted),
    entry(phi_3_medium_4k,
          13'960'238'080,
          "a benchmark's table, of unsloth/Phi-3-medium-4k-instruct"),
    entry(phi_4, 14'659'507'200, "Hugging Face Hub, safetensors.total, on 2026-09-25"),
    entry(phi_4_mini),
    entry(deepseek_moe_16b, 16'375'728'128, llmfit_fork),
    entry(deepseek_v2_lite, 15'706'484'224, llmfit_fork),
    entry(deepseek_v2),
    entry(deepseek_v3),
    entry(deepseek_r1,
          684'531'386'000,
          llmfit_fork,
          "a copy of table and head for multi-token prediction, 41,540,496 scales of FP8 blocks",
          1'894'898'576),
    entry(kimi_k2,
          1'026'470'731'056,
          llmfit_fork,
          "of the Instruct version: 62,495,192 scales of FP8 blocks, 61 x 56 rotary frequencies",
          62'498'608),
    entry(moonlight_16b_a3b),
    entry(olmo_1b),
    entry(olmo_7b, 6'888'095'744, "a test that asserts it of allenai/OLMo-7B"),
    entry(olmo_2_0425_1b, 1'484'916'736, llmfit_fork),
    entry(olmo_2_1124_7b),
    entry(olmo_2_1124_13b),
    entry(olmo_2_0325_32b, 32'234'279'936, llmfit_fork, "of the Instruct version"),
    entry(olmo_3_7b, 7'298'011'136, llmfit_fork),
    entry(olmo_3_32b),
    entry(olmoe_1b_7b, 6'919'161'856, llmfit_fork),
    entry(dbrx),
    entry(grok_1,
          315'684'820'992,
          "inventory of the checkpoint's 770 tensors, scales of int8 left out"),
    entry(starcoder2_3b, 3'030'371'328, llmfit_fork),
    entry(starcoder2_7b, 7'173'923'840, llmfit_fork),
    entry(starcoder2_15b),
    entry(starcoder, 15'517'456'384, counted),
    entry(santacoder, 1'124'886'528, counted),
    entry(yi_6b, 6'061'035'520, llmfit_fork, "of the Chat version"),
    entry(yi_9b, 8'829'407'232, llmfit_fork, "of Yi-1.5-9B-Chat"),
    entry(yi_34b),
    entry(command_r_v01),
    entry(command_r_plus),
    entry(minitron_4b),
    entry(nemotron_3_8b),
    entry(nemotron_4_15b),
    entry(nemotron_4_340b),
    entry(nemotron_h_8b, 8'100'852'736, counted),
    entry(nemotron_h_56b, 56'324'350'464, counted),
    entry(nemotron_3_nano_30b_a3b, 31'577'940'288, counted, "with the router's biases"),
    entry(mistral_nemo_minitron_8b),
    entry(llama_3_1_nemotron_nano_8b, 8'030'261'248, llmfit),
    shapeless("llama-3.3-nemotron-super-49b",
              "its layers differ from each other: widths of MLPs, some without attention",
              49'867'145'216,
              llmfit_fork),
    entry(gpt_oss_20b, 20'914'757'184, keras_hub),
    entry(gpt_oss_120b),
    entry(glm_4_5),
    entry(glm_4_5_air,
          110'468'824'832,
          llmfit,
          "a copy of table and head for multi-token prediction",
          1'241'513'984),
    entry(glm_4_9b_0414, 9'400'279'040, counted),
    entry(glm_4_32b_0414, 32'566'081'536, counted),
    entry(granite_3_3_2b, 2'533'539'840, counted),
    entry(granite_3_3_8b, 8'170'864'640, counted),
    entry(granite_3_1_1b_a400m, 1'334'628'352, counted),
    entry(granite_3_1_3b_a800m, 3'298'793'472, counted),
    entry(stablelm_3b_4e1t, 2'795'443'200, counted),
    entry(stablelm_2_1_6b, 1'644'515'328, counted),
    entry(seed_oss_36b, 36'151'104'512, counted),
    entry(ernie_4_5_0_3b, 360'748'032, counted),
    entry(ernie_4_5_21b_a3b, 21'825'437'888, counted),
    entry(afm_4_5b, 4'619'184'640, counted),
    entry(helium_1_2b, 2'023'868'416, counted),
    entry(vaultgemma_1b, 1'038'741'120, counted),
    entry(exaone_4_0_32b),
    entry(mamba2_2_7b, 2'702'599'680, counted),
    entry(bert_base_uncased, 109'482'240, keras_hub),
    entry(bert_large_uncased),
    entry(roberta_base,
          124'052'736,
          keras_hub,
          "512 rows of positions, not 514, and none of token types",
          -2'304),
    entry(roberta_large,
          354'307'072,
          keras_hub,
          "512 rows of positions, not 514, and none of token types",
          -3'072),
    entry(xlm_roberta_base),
    entry(xlm_roberta_large),
    entry(distilbert_base_uncased, 66'362'880, keras_hub),
    entry(all_minilm_l6_v2, 22'713'216, mteb),
    entry(all_minilm_l12_v2, 33'360'000, mteb),
    entry(all_mpnet_base_v2),
    entry(bge_small_en_v1_5, 33'360'000, counted),
    entry(bge_base_en_v1_5, 109'482'240, counted),
    entry(bge_large_en_v1_5, 335'141'888, counted),
    entry(bge_m3, 567'754'752, counted),
    entry(electra_small_discriminator, 13'549'057, counted),
    entry(electra_base_discriminator, 109'483'009, counted),
    entry(electra_large_discriminator, 335'142'913, counted),
    entry(albert_base_v2, 11'221'680, counted),
    entry(deberta_v3_small, 141'304'320, counted),
    entry(deberta_v3_base, 183'831'552, counted),
    entry(deberta_v3_large, 434'012'160, counted),
    entry(modernbert_base, 149'655'232, counted),
    entry(modernbert_large, 395'881'664, counted),
    entry(t5_small, 60'506'624, keras_hub),
    entry(t5_base),
    entry(t5_large, 737'668'096, keras_hub),
    entry(t5_3b, 2'851'598'336, "KerasNLP, metadata.params of its preset"),
    entry(t5_11b, 11'307'321'344, "a table of T5's sizes"),
    entry(t5_v1_1_small),
    entry(t5_v1_1_base, 247'577'856, keras_hub),
    entry(t5_v1_1_large),
    entry(t5_v1_1_xl),
    entry(t5_v1_1_xxl, 11'135'332'352, keras_hub),
    entry(flan_t5_small),
    entry(flan_t5_base),
    entry(flan_t5_large),
    entry(flan_t5_xl),
    entry(flan_t5_xxl),
    entry(bart_base, 139'420'416, counted),
    entry(bart_large, 406'291'456, counted),
    entry(mbart_large_50, 610'879'488, counted),
    entry(nllb_200_distilled_600m, 615'073'792, counted),
    entry(pegasus_large, 570'797'056, counted),
    entry(whisper_tiny, 37'760'640, counted),
    entry(whisper_base, 72'593'920, counted),
    entry(whisper_small, 241'734'912, counted),
    entry(whisper_medium, 763'857'920, counted),
    entry(whisper_large_v2, 1'543'304'960, counted),
    entry(whisper_large_v3, 1'543'490'560, counted),
    entry(whisper_large_v3_turbo, 808'878'080, counted),
    entry(wav2vec2_base_960h, 94'396'320, counted, row_of_masks, 768),
    entry(wav2vec2_large_960h_lv60_self, 315'471'520, counted, row_of_masks, 1'024),
    entry(vit_base_patch16_224),
    entry(vit_large_patch16_224, 304'326'632, torchvision),
    entry(vit_huge_patch14_224, 632'045'800, torchvision),
    entry(vit_huge_patch14_518),
    entry(clip_vit_large_patch14_vision),
    entry(clip_vit_large_patch14_text),
    entry(clip_vit_large_patch14, 427'616'513, mteb),
    entry(clip_vit_base_patch32, 151'277'313, counted),
    entry(clip_vit_base_patch16, 149'620'737, counted),
    entry(clip_vit_large_patch14_336, 427'944'193, counted),
    shapeless("resnet-50", "convolutions, not a transformer", 25'557'032, torchvision),
    entry(llama_2_7b_vocab32064),
    entry(dinov2_large_reg4_224),
    entry(dinov2_small_imagenet1k_1_layer, 22'825'576, counted),
    entry(dinov2_base_imagenet1k_1_layer, 88'117'480, counted),
    entry(dinov2_large_imagenet1k_1_layer, 306'417'640, counted),
    entry(dinov3_vits16_pretrain_lvd1689m, 21'596'544, counted),
    entry(dinov3_vits16plus_pretrain_lvd1689m, 28'692'864, counted),
    entry(dinov3_vitb16_pretrain_lvd1689m, 85'660'416, counted),
    entry(dinov3_vitl16_pretrain_lvd1689m, 303'129'600, counted),
    entry(dinov3_vith16plus_pretrain_lvd1689m, 840'592'640, counted),
    entry(dinov3_vit7b16_pretrain_lvd1689m, 6'716'035'072, counted),
    entry(swin_tiny_patch4_window7_224, 28'288'354, counted),
    entry(swin_small_patch4_window7_224, 49'606'258, counted),
    entry(swin_base_patch4_window7_224, 87'768'224, counted),
    entry(swin_large_patch4_window7_224, 196'532'476, counted),
    entry(siglip_so400m_patch14_224_vision),
    entry(siglip_so400m_patch14_224_text),
    entry(siglip_so400m_patch14_224, 877'360'578, keras_hub, "the ids of 256 + 16 positions", 272),
    entry(siglip_base_patch16_224, 203'155'970, counted),
    entry(siglip_so400m_patch14_384, 877'960'498, counted),
    entry(llava_1_5_7b, 7'063'427'072, counted),
    entry(llava_1_5_13b, 13'351'494'656, counted),
    entry(paligemma_3b_pt_224, 2'923'466'480, counted),
    entry(paligemma_3b_pt_448, 2'924'351'216, counted),
    entry(paligemma2_3b_pt_224, 3'032'242'416, counted),
    entry(gemma_3_4b_it, 4'300'079'472, counted),
    entry(gemma_3_12b_it, 12'187'325'040, counted),
    entry(gemma_3_27b_it, 27'432'406'640, counted),
    entry(qwen2_vl_2b, 2'208'985'600, counted),
    entry(qwen2_vl_7b, 8'291'375'616, counted),
    entry(qwen2_vl_72b, 73'405'560'320, counted),
    entry(qwen2_5_vl_3b, 3'754'622'976, counted),
    entry(qwen2_5_vl_7b, 8'292'166'656, counted),
    entry(qwen2_5_vl_32b, 33'452'718'336, counted),
    entry(qwen2_5_vl_72b, 73'410'777'344, counted),
    entry(qwen3_vl_2b, 2'127'532'032, counted),
    entry(qwen3_vl_4b, 4'437'815'808, counted),
    entry(qwen3_vl_8b, 8'767'123'696, counted),
    entry(qwen3_vl_32b, 33'357'390'064, counted),
    entry(smolvlm_256m, 256'484'928, counted),
    entry(smolvlm_500m, 507'482'304, counted),
    entry(smolvlm2_2_2b, 2'246'784'880, counted),
    entry(idefics3_8b_llama3, 8'462'086'384, counted),
    entry(internvl3_1b, 938'193'024, counted),
    entry(internvl3_2b, 2'088'957'440, counted),
    entry(internvl3_8b, 7'944'373'760, counted),
    entry(openvla_7b, 7'541'237'184, llmfit, "of the fine-tune for LIBERO-Spatial"),
    entry(qwen3_1_7b_first12),
    entry(gr00t_n1_5_3b_backbone,
          1'655'357'376,
          "a training report: 2,724,163,520 parameters less 1,068,806,144 that train"),
    entry(gr00t_n1_5_3b,
          2'724'163'520,
          "a training report",
          "the shape of the head is recalled, and has the 1,068,806,144 that the report trains"),
    shapeless("gr00t-n1.6-3b",
              "an Eagle 3 backbone cut to 16 layers and a DiT of 32; no source has their shapes"),
    shapeless(
        "gr00t-n1.7-3b",
        "a Cosmos-Reason2 backbone cut to 16 layers and a DiT of 32; no source has their shapes",
        3'455'180'928,
        "a table that compares the versions"),
    shapeless("gr00t-n1-2b",
              "an Eagle 2 backbone of 1.34 B (arXiv 2503.14734); no source has its shape"),
};

}  // namespace model_data

/// Every model of the catalogue.
using model_data::models;

}  // namespace gpuplan::catalog

namespace gpuplan::detail {

// Names on the Hugging Face Hub begin with an owner.
constexpr std::string_view without_owner(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  return slash == std::string_view::npos ? name : name.substr(slash + 1);
}

// Some of Meta's begin with "Meta" besides.
constexpr plain_name plain_model_name(std::string_view name) {
  const plain_name plain(name);
  constexpr std::string_view word = "meta";
  return plain.text().starts_with(word) ? plain_name(plain.text().substr(word.size())) : plain;
}

// Of a name without its owner.
constexpr const char* nearest_model_id(std::string_view name) {
  nearest_name nearest(name, plain_model_name(name));
  for (const catalog::published_model& model : catalog::models)
    nearest.offer(model.id, plain_model_name(model.id), model.id);
  return nearest.id();
}

}  // namespace gpuplan::detail

namespace gpuplan::catalog {

/// The model with this id, or with its name on the Hugging Face Hub: "llama-3.1-8b",
/// "llama_3_1_8b", "meta-llama/Llama-3.1-8B". Case does not matter, nor which punctuation there is;
/// where a single model can be meant, nor whether there is any. Errors: `unknown_model` with the
/// nearest id.
[[nodiscard]] constexpr result<published_model> find_model(std::string_view name) {
  name = gpuplan::detail::without_owner(name);
  for (const published_model& model : models)
    if (gpuplan::detail::same_but_for_marks(name, model.id)) return model;

  const auto wanted = gpuplan::detail::plain_model_name(name);
  const published_model* meant = nullptr;
  int matches = 0;  // two for "opt13b": OPT-1.3B, OPT-13B
  for (const published_model& model : models) {
    if (gpuplan::detail::plain_model_name(model.id) != wanted) continue;
    meant = &model;
    ++matches;
  }
  if (matches == 1) return *meant;

  return failure(errc::unknown_model).about(gpuplan::detail::nearest_model_id(name));
}

}  // namespace gpuplan::catalog
