#include <gpuplan/io/hugging_face_config.hpp>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/detail/text.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/replay.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "check.hpp"
#include "fields.hpp"

using namespace gpuplan;
using namespace gpuplan::io;

namespace {

struct counted {
  const char* config;
  std::int64_t parameters;
};
#include "hugging_face_config_rows.inc"

// The parameters of the model that a configuration describes.
std::int64_t total(const std::string& config) {
  const auto read = read_hugging_face_config(config);
  CHECK(validate(*read.shape));
  if (read.composite.size() != 0) return parameters(read.composite).total();
  return parameters(*read.shape).total();
}

// What the reader says against a configuration; empty where it reads it.
std::string complaint(const std::string& config) {
  const auto read = read_hugging_face_config(config);
  CHECK(read.reason.empty() == static_cast<bool>(read.shape));
  return read.reason;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::string llama =
    R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":4096,)"
    R"("intermediate_size":14336,"num_attention_heads":32,"num_hidden_layers":32,)"
    R"("num_key_value_heads":8,"vocab_size":128256,"rope_theta":500000.0,"hidden_act":"silu",)"
    R"("attention_bias":false,"tie_word_embeddings":false,"torch_dtype":"bfloat16"})";

// The configuration of Llama 3 8B with one key changed, or taken out where `value` is empty.
std::string changed(const std::string& key, const std::string& value) {
  auto config = nlohmann::json::parse(llama);
  if (value.empty())
    config.erase(key);
  else
    config[key] = nlohmann::json::parse(value);
  return config.dump();
}

}  // namespace

TEST_CASE("configurations of every known type count as PyTorch does") {
  std::vector<std::string> types;
  for (const counted& row : rows) {
    CAPTURE(std::string(row.config));
    CHECK(total(row.config) == row.parameters);
    CHECK(read_hugging_face_config(row.config).unknown_keys.empty());
    types.push_back(read_hugging_face_config(row.config).model_type);
  }
  for (const std::string_view type : hugging_face_model_types()) {
    CAPTURE(std::string(type));
    CHECK(std::count(types.begin(), types.end(), type) > 0);
  }
}

TEST_CASE("a published configuration is the catalogue's model") {
  const auto read = read_hugging_face_config(llama);
  CHECK(read.model_type == "llama");
  CHECK(read.unknown_keys.empty());
  CHECK(parameters(*read.shape) == parameters(catalog::llama_3_8b));
  // Mixtral 8x7B and GPT-2 XL, with the keys that their files have.
  CHECK(total(R"({"architectures":["MixtralForCausalLM"],"model_type":"mixtral",)"
              R"("hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,)"
              R"("num_experts_per_tok":2,"num_hidden_layers":32,"num_key_value_heads":8,)"
              R"("num_local_experts":8,"sliding_window":null,"tie_word_embeddings":false,)"
              R"("vocab_size":32000})") == 46'702'792'704);
  CHECK(total(R"({"architectures":["GPT2LMHeadModel"],"model_type":"gpt2","n_ctx":1024,)"
              R"("n_embd":1600,"n_head":25,"n_layer":48,"n_positions":1024,)"
              R"("vocab_size":50257})") == 1'557'611'200);
}

TEST_CASE("models of the catalogue apply what their class does") {
  const std::string decoder =
      R"("num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,"intermediate_size":256,)"
      R"("num_key_value_heads":4,"vocab_size":512,"max_position_embeddings":64})";
  const std::string gpt = R"("n_layer":2,"n_embd":64,"n_head":4,"vocab_size":512,)"
                          R"("n_positions":64})";
  const std::string t5 = R"("num_layers":2,"d_model":64,"num_heads":4,"d_ff":256,"d_kv":16,)"
                         R"("vocab_size":512})";
  const std::pair<std::string, const transformer*> classes[] = {
      {R"({"model_type":"gpt2",)" + gpt, &catalog::gpt2},
      {R"({"model_type":"gptj","rotary_dim":16,)" + gpt, &catalog::gpt_j_6b},
      {R"({"model_type":"gpt_neox",)" + decoder, &catalog::pythia_1b},
      {R"({"model_type":"opt","ffn_dim":256,)" + decoder, &catalog::opt_1_3b},
      {R"({"model_type":"phi",)" + decoder, &catalog::phi_2},
      {R"({"model_type":"bert",)" + decoder, &catalog::bert_base_uncased},
      {R"({"model_type":"gemma2",)" + decoder, &catalog::gemma_2_2b},
      {R"({"model_type":"starcoder2",)" + decoder, &catalog::starcoder2_3b},
      {R"({"model_type":"nemotron","hidden_act":"relu2",)" + decoder, &catalog::nemotron_4_15b},
      {R"({"model_type":"llama",)" + decoder, &catalog::llama_3_8b},
      {R"({"model_type":"t5",)" + t5, &catalog::t5_small},
      {R"({"model_type":"t5","feed_forward_proj":"gated-gelu",)" + t5, &catalog::t5_v1_1_small},
  };
  for (const auto& [config, model] : classes) {
    CAPTURE(config);
    const auto read = read_hugging_face_config(config);
    REQUIRE(read.shape);
    CHECK(read.shape->hidden_act == model->hidden_act);
  }
}

TEST_CASE("multi-token prediction and windows are read") {
  const std::string deepseek =
      R"({"model_type":"deepseek_v3","hidden_size":7168,"intermediate_size":18432,)"
      R"("num_attention_heads":128,"num_key_value_heads":128,"num_hidden_layers":61,)"
      R"("vocab_size":129280,"q_lora_rank":1536,"kv_lora_rank":512,"qk_nope_head_dim":128,)"
      R"("qk_rope_head_dim":64,"v_head_dim":128,"n_routed_experts":256,"n_shared_experts":1,)"
      R"("num_experts_per_tok":8,"moe_intermediate_size":2048,"first_k_dense_replace":3,)"
      R"("moe_layer_freq":1,"num_nextn_predict_layers":1})";
  CHECK(parameters(*read_hugging_face_config(deepseek).shape) == parameters(catalog::deepseek_v3));

  auto gemma = nlohmann::json::parse(
      R"({"model_type":"gemma3_text","hidden_size":640,"intermediate_size":2048,"head_dim":256,)"
      R"("num_attention_heads":4,"num_key_value_heads":1,"num_hidden_layers":3,)"
      R"("vocab_size":262144,"sliding_window":512,"sliding_window_pattern":3})");
  CHECK(read_hugging_face_config(gemma.dump()).shape->sliding_window == 512);
  CHECK(read_hugging_face_config(gemma.dump()).shape->global_layer_step == 3);
  gemma["layer_types"] = {"sliding_attention", "sliding_attention", "full_attention"};
  CHECK(complaint(gemma.dump()).empty());
  gemma["layer_types"] = {"full_attention", "full_attention", "full_attention"};
  CHECK(read_hugging_face_config(gemma.dump()).shape->sliding_window == 0);
  gemma["layer_types"] = {"full_attention", "sliding_attention", "full_attention"};
  CHECK(has(complaint(gemma.dump()), "layer_types"));
  gemma["layer_types"] = {"sliding_attention", "sliding_attention", "linear_attention"};
  CHECK(has(complaint(gemma.dump()), "layer_types"));
}

TEST_CASE("what is left out has the default of its class") {
  CHECK(total(changed("num_key_value_heads", "")) == total(changed("num_key_value_heads", "32")));
  CHECK(total(changed("num_key_value_heads", "null")) ==
        total(changed("num_key_value_heads", "32")));
  CHECK(total(changed("tie_word_embeddings", "")) == 8'030'261'248);
  CHECK(total(changed("architectures", "")) == 8'030'261'248);
  CHECK(total(changed("architectures", R"(["LlamaModel"])")) == 8'030'261'248 - 4096 * 128256);
  // A head of two classes beside BERT's pooler.
  const std::string bert =
      R"({"model_type":"bert","architectures":["BertForSequenceClassification"],)"
      R"("hidden_size":768,"intermediate_size":3072,"num_attention_heads":12,)"
      R"("num_hidden_layers":12,"max_position_embeddings":512,"vocab_size":30522)";
  CHECK(total(bert + "}") == 109'482'240 + 2 * 769);
  CHECK(total(bert + R"(,"id2label":{"0":"a","1":"b","2":"c"}})") == 109'482'240 + 3 * 769);
}

// By AutoModelForCausalLM.from_config of transformers 5.23 (mT5's class of it), with the buffers of
// routers: what these leave out differs from what other types take.
TEST_CASE("defaults of classes are those of each class") {
  const counted sparse[] = {
      {R"({"model_type":"mistral","hidden_size":512,"intermediate_size":1024,"num_attention_heads":32,"num_hidden_layers":4,"vocab_size":1000})",
       9'941'504},
      {R"({"model_type":"mixtral","hidden_size":512,"intermediate_size":1024,"num_attention_heads":32,"num_hidden_layers":4,"vocab_size":1000,"num_local_experts":4,"num_experts_per_tok":2})",
       28'824'064},
      {R"({"model_type":"gemma2","hidden_size":512,"intermediate_size":1024,"num_attention_heads":32,"num_hidden_layers":4,"vocab_size":1000})",
       44'560'896},
      {R"({"model_type":"starcoder2","hidden_size":512,"intermediate_size":1024,"num_attention_heads":32,"num_hidden_layers":4,"vocab_size":1000})",
       6'954'240},
      {R"({"model_type":"gpt_oss","hidden_size":512,"intermediate_size":1024,"num_attention_heads":32,"num_hidden_layers":4,"vocab_size":1000,"num_local_experts":4,"num_experts_per_tok":2})",
       36'743'824},
      {R"({"model_type":"qwen2_moe","hidden_size":512,"intermediate_size":1024,"num_attention_heads":32,"num_hidden_layers":4,"vocab_size":1000,"num_experts":4,"shared_expert_intermediate_size":256,"moe_intermediate_size":128,"num_experts_per_tok":2})",
       8'907'264},
      {R"({"model_type":"qwen3","hidden_size":512,"intermediate_size":1024,"num_attention_heads":32,"num_hidden_layers":4,"vocab_size":1000})",
       40'875'520},
      {R"({"model_type":"qwen3_moe","hidden_size":512,"intermediate_size":1024,"num_attention_heads":32,"num_hidden_layers":4,"vocab_size":1000,"num_experts":4,"moe_intermediate_size":128,"num_experts_per_tok":2})",
       6'541'952},
      {R"({"model_type":"glm4_moe","hidden_size":512,"intermediate_size":1024,"num_attention_heads":32,"num_hidden_layers":4,"vocab_size":1000,"n_routed_experts":16,"moe_intermediate_size":128,"num_experts_per_tok":2})",
       15'274'544},
      {R"({"model_type":"deepseek_v2","hidden_size":512,"intermediate_size":1024,"num_attention_heads":32,"num_hidden_layers":4,"vocab_size":1000,"n_routed_experts":16,"kv_lora_rank":64,"qk_nope_head_dim":32,"qk_rope_head_dim":16,"v_head_dim":32,"moe_intermediate_size":128,"num_experts_per_tok":2})",
       30'591'744},
      {R"({"model_type":"deepseek_v3","hidden_size":512,"intermediate_size":1024,"num_attention_heads":32,"num_hidden_layers":4,"vocab_size":1000,"n_routed_experts":16,"kv_lora_rank":64,"qk_nope_head_dim":32,"qk_rope_head_dim":16,"v_head_dim":32,"moe_intermediate_size":128,"num_experts_per_tok":2})",
       24'472'336},
      {R"({"model_type":"glm4_moe_lite","hidden_size":512,"intermediate_size":1024,"num_attention_heads":32,"num_hidden_layers":4,"vocab_size":1000,"n_routed_experts":16,"kv_lora_rank":64,"qk_nope_head_dim":32,"qk_rope_head_dim":16,"v_head_dim":32,"moe_intermediate_size":128,"num_experts_per_tok":2})",
       21'733'168},
      {R"({"model_type":"solar_open","hidden_size":512,"intermediate_size":1024,"num_attention_heads":32,"num_hidden_layers":4,"vocab_size":1000,"n_routed_experts":16,"moe_intermediate_size":128,"num_experts_per_tok":2})",
       35'402'304},
      {R"({"model_type":"mt5","d_model":512,"d_ff":1024,"num_layers":4,"num_heads":8,"d_kv":64,"vocab_size":1000})",
       25'689'600},
  };
  for (const counted& one : sparse) CHECK_MESSAGE(total(one.config) == one.parameters, one.config);
  // Absent and null are two things.
  const std::string mistral =
      R"({"model_type":"mistral","hidden_size":512,"intermediate_size":1024,"vocab_size":1000,)"
      R"("num_attention_heads":32,"num_hidden_layers":4,"num_key_value_heads":)";
  CHECK(total(mistral + "null}") == total(mistral + "32}"));
  CHECK(has(complaint(R"({"model_type":"deberta-v2","hidden_size":256,"num_hidden_layers":2,)"
                      R"("num_attention_heads":4,"intermediate_size":512,"vocab_size":1000,)"
                      R"("max_position_embeddings":512})"),
            "relative_attention must be true"));
}

// By transformers 5.23, as above.
TEST_CASE("what is null is none, and what is left out is the class's") {
  const auto file = [](const std::string& type, const std::string& more) {
    return R"({"model_type":")" + type + R"(","hidden_size":512,"intermediate_size":1024,)" +
           R"("num_attention_heads":32,"num_hidden_layers":4,"vocab_size":1000)" + more + "}";
  };
  const auto window = [&](const std::string& type, const std::string& more) {
    const auto read = read_hugging_face_config(file(type, more));
    CHECK(read.unknown_keys.empty());
    return read.shape->sliding_window;
  };
  const std::string null = R"(,"sliding_window":null)";
  const std::string used = R"(,"use_sliding_window":true,"max_window_layers":2)";
  for (const char* type : {"mistral", "ministral"}) {
    CAPTURE(type);
    CHECK(window(type, null) == 0);
    CHECK(window(type, "") == 4096);
    CHECK(window(type, R"(,"sliding_window":512)") == 512);
  }
  for (const char* type : {"qwen2", "qwen3"}) {
    CAPTURE(type);
    CHECK(window(type, used + null) == 0);
    CHECK(window(type, used) == 4096);
    CHECK(window(type, "") == 0);
  }
  CHECK(window("gpt_oss", R"(,"num_local_experts":4,"num_experts_per_tok":2)") == 128);
  const counted heads[] = {
      {R"("ernie4_5")", 24'633'856},
      {R"("ernie4_5","num_key_value_heads":null)", 40'362'496},
      {R"("ernie4_5","head_dim":null)", 9'036'288},
      {R"("seed_oss")", 28'316'160},
      {R"("seed_oss","num_key_value_heads":null)", 40'923'648},
      {R"("vaultgemma")", 44'556'800},
  };
  for (const counted& one : heads)
    CHECK_MESSAGE(total(R"({"hidden_size":512,"intermediate_size":1024,"num_attention_heads":32,)"
                        R"("num_hidden_layers":4,"vocab_size":1000,"model_type":)" +
                        std::string(one.config) + "}") == one.parameters,
                  one.config);
}

// By transformers 5.23; the first two are files that were published.
TEST_CASE("parts of a model have the defaults of their classes") {
  const counted composites[] = {
      {R"({"architectures":["LlavaForConditionalGeneration"],"ignore_index":-100,)"
       R"("image_token_index":32000,"model_type":"llava","pad_token_id":32001,)"
       R"("projector_hidden_act":"gelu","text_config":{"_name_or_path":"lmsys/vicuna-7b-v1.5",)"
       R"("architectures":["LlamaForCausalLM"],"max_position_embeddings":4096,)"
       R"("model_type":"llama","rms_norm_eps":1e-05,"torch_dtype":"float16","vocab_size":32064},)"
       R"("tie_word_embeddings":false,"torch_dtype":"float16",)"
       R"("transformers_version":"4.36.0.dev0","vision_config":{"hidden_size":1024,)"
       R"("image_size":336,"intermediate_size":4096,"model_type":"clip_vision_model",)"
       R"("num_attention_heads":16,"num_hidden_layers":24,"patch_size":14,"projection_dim":768,)"
       R"("vocab_size":32000},"vision_feature_layer":-2,)"
       R"("vision_feature_select_strategy":"default","vocab_size":32064})",
       7'063'427'072},
      {R"({"architectures":["Gemma3ForConditionalGeneration"],"boi_token_index":255999,)"
       R"("eoi_token_index":256000,"eos_token_id":[1,106],"image_token_index":262144,)"
       R"("initializer_range":0.02,"mm_tokens_per_image":256,"model_type":"gemma3",)"
       R"("text_config":{"hidden_size":2560,"intermediate_size":10240,)"
       R"("model_type":"gemma3_text","num_hidden_layers":34,"rope_scaling":{"factor":8.0,)"
       R"("rope_type":"linear"},"sliding_window":1024},"torch_dtype":"bfloat16",)"
       R"("transformers_version":"4.50.0.dev0","vision_config":{"hidden_size":1152,)"
       R"("image_size":896,"intermediate_size":4304,"model_type":"siglip_vision_model",)"
       R"("num_attention_heads":16,"num_hidden_layers":27,"patch_size":14,)"
       R"("vision_use_head":false}})",
       4'300'079'472},
      {R"({"model_type":"qwen2_5_vl","vision_config":{"depth":2,"hidden_size":64,"num_heads":2,)"
       R"("intermediate_size":128,"out_hidden_size":512,"fullatt_block_indexes":[1]},)"
       R"("text_config":{"hidden_size":512,"num_attention_heads":16,"intermediate_size":1024,)"
       R"("num_hidden_layers":4,"vocab_size":1000}})",
       10'825'920},
      {R"({"model_type":"paligemma","image_token_index":7,"text_config":{"hidden_size":512,)"
       R"("num_hidden_layers":2,"vocab_size":1000,"model_type":"gemma"},)"
       R"("vision_config":{"hidden_size":64,"image_size":224,"intermediate_size":128,)"
       R"("model_type":"siglip_vision_model","num_attention_heads":2,"num_hidden_layers":2,)"
       R"("patch_size":14,"vision_use_head":false},"projection_dim":512})",
       92'943'680},
  };
  for (const counted& one : composites) {
    CAPTURE(one.config);
    REQUIRE(complaint(one.config) == "");
    CHECK(total(one.config) == one.parameters);
    CHECK(read_hugging_face_config(one.config).unknown_keys.empty());
  }
  const auto gemma = read_hugging_face_config(composites[1].config);
  CHECK(gemma.shape->num_key_value_heads == 4);
  CHECK(gemma.shape->sliding_window == 1024);
  // A part that could not be read leaves no key to quote.
  CHECK(has(complaint(R"({"model_type":"pi0","vlm_config":{"projection_dim":3072,"text_config":{},)"
                      R"("vision_config":{"vision_use_head":false}},"dit_config":{)"
                      R"("num_hidden_layers":2}})"),
            "dit_config must be of as many layers"));
}

// By transformers 5.23, as above, each a key that changes what its class builds.
TEST_CASE("what a file says beside its class's shape is counted or refused by its key") {
  const auto file = [](const std::string& type, const std::string& more) {
    return R"({"model_type":")" + type + R"(","hidden_size":512,"intermediate_size":1024,)" +
           R"("num_attention_heads":4,"num_hidden_layers":4,"vocab_size":1000)" + more + "}";
  };
  const std::string bert = R"(,"max_position_embeddings":64,"architectures":["BertForMaskedLM"])";
  const std::string bart =
      R"({"model_type":"bart","encoder_layers":2,"decoder_layers":2,"encoder_ffn_dim":64,)"
      R"("decoder_ffn_dim":64,"encoder_attention_heads":4,"decoder_attention_heads":4,)"
      R"("d_model":64,"vocab_size":99)";
  const std::string mt5 = R"({"model_type":"mt5","d_model":64,"d_ff":128,"num_layers":2,)"
                          R"("num_heads":4,"d_kv":16,"vocab_size":1000)";
  const std::string falcon =
      R"({"model_type":"falcon","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":2,)"
      R"("vocab_size":99)";
  const std::string clip =
      R"({"model_type":"clip","text_config":{"num_attention_heads":1},"vision_config":)";
  const std::string llama4 = R"(,"intermediate_size_mlp":64,"num_local_experts":2,"moe_layers":)";
  struct case_of {
    std::string config;
    std::string said;
  };
  const case_of cases[] = {
      {file("bert", bert + R"(,"tie_word_embeddings":false)"), "tie_word_embeddings must be true"},
      {bart + R"(,"tie_word_embeddings":false})", "tie_word_embeddings must be true"},
      {mt5 + R"(,"feed_forward_proj":"relu","is_gated_act":true})", "is_gated_act must be false"},
      {file("helium", R"(,"head_dim":64)"), "head_dim must be hidden_size / num_attention_heads"},
      {file("gemma2", R"(,"head_dim":0)"), "head_dim must be a whole number from 1 to 2^40"},
      {file("vit", R"(,"pooler_output_size":64)"), "pooler_output_size must be hidden_size"},
      {falcon + R"(,"num_ln_in_parallel_attn":2})", "num_ln_in_parallel_attn must be 1"},
      {file("llama4_text", llama4 + "[1,3]"), "moe_layers must be each"},
      {R"({"model_type":"llava","text_config":{}})", "config.json has no vision_config"},
      {R"({"model_type":"paligemma","vision_config":{}})", "config.json has no text_config"},
      {R"({"model_type":"paligemma","projection_dim":64,"text_config":{"hidden_size":512},)"
       R"("vision_config":{"vision_use_head":false}})",
       "projection_dim must be the language model's hidden_size"},
      // What sees is counted in patches.
      {R"({"model_type":"paligemma","text_config":{"hidden_size":512},)"
       R"("vision_config":{"model_type":"gemma"}})",
       "vision_config: model_type must be an encoder of images, not gemma"},
      {R"({"model_type":"llava","text_config":{},"vision_config":{"model_type":"none"}})",
       "vision_config: this reader does not know none as a part of a model"},
      {R"({"model_type":"llava","text_config":{},"vision_config":3})",
       "vision_config must be an object, not 3"},
      // Nothing is divided by heads that there are not.
      {R"({"model_type":"phi3","hidden_size":512,"num_hidden_layers":4,"vocab_size":1000,)"
       R"("intermediate_size":1024,"partial_rotary_factor":0.5})",
       "no num_attention_heads"},
  };
  for (const case_of& one : cases) {
    CAPTURE(one.config);
    const std::string said = complaint(one.config);
    CHECK_MESSAGE(has(said, one.said), said);
  }
  const auto headless =
      read_hugging_face_config(clip + R"({"num_attention_heads":0,"hidden_size":64}})");
  REQUIRE(headless.composite.size() == 2);
  CHECK(!validate(headless.composite));
  const counted counts[] = {
      {R"({"model_type":"seed_oss","head_dim":null,"hidden_size":512,"intermediate_size":1024,"num_attention_heads":32,"num_hidden_layers":4,"vocab_size":1000})",
       9'944'576},
      {R"({"model_type":"bart","encoder_layers":2,"decoder_layers":2,"encoder_ffn_dim":64,"decoder_ffn_dim":64,"encoder_attention_heads":4,"decoder_attention_heads":4,"d_model":64,"vocab_size":99})",
       272'320},
      {R"({"model_type":"pegasus","encoder_layers":2,"decoder_layers":2,"encoder_ffn_dim":64,"decoder_ffn_dim":64,"encoder_attention_heads":4,"decoder_attention_heads":4,"d_model":64,"vocab_size":99})",
       272'064},
      {R"({"model_type":"dots1","hidden_size":512,"intermediate_size":1024,"num_attention_heads":32,"num_hidden_layers":4,"vocab_size":1000,"n_routed_experts":16,"n_shared_experts":1,"moe_intermediate_size":128,"num_experts_per_tok":2})",
       18'625'216},
  };
  for (const counted& one : counts) CHECK_MESSAGE(total(one.config) == one.parameters, one.config);
  // Checkpoints of mT5 have a head of their own, which transformers keeps where the file ties none.
  CHECK(total(mt5 + R"(,"tie_word_embeddings":false})") == total(mt5 + "}") + 64 * 1000);
}

TEST_CASE("how ModernBERT pools matters to its classifier alone") {
  const auto read = [](const std::string& of, const std::string& pooling) {
    return io::read_hugging_face_config(
        R"({"model_type":"modernbert","hidden_size":64,"intermediate_size":96,)"
        R"("num_attention_heads":4,"num_hidden_layers":3,"vocab_size":1000,"architectures":[")" +
        of + R"("],"classifier_pooling":")" + pooling +
        R"(","global_rope_theta":160000.0,"local_rope_theta":10000.0})");
  };
  for (const char* const pooling : {"cls", "mean"}) {
    CAPTURE(pooling);
    CHECK(read("ModernBertForMaskedLM", pooling).shape);
    CHECK(read("ModernBertForMaskedLM", pooling).unknown_keys.empty());
  }
  for (const bool is_mean : {false, true}) {
    const char* const pooling = is_mean ? "mean" : "cls";
    CHECK(read("ModernBertForSequenceClassification", pooling).shape->classifier_reads_mean ==
          is_mean);
    CHECK_FALSE(read("ModernBertForTokenClassification", pooling).shape->classifier_reads_mean);
  }
}

TEST_CASE("bounds of query, key and value, where a file has them") {
  const auto clips = [](const std::string& config) {
    const auto read = io::read_hugging_face_config(config);
    CHECK(read.reason == "");
    return read.shape->clip_qkv;
  };
  const std::string olmo =
      R"({"model_type":"olmo","hidden_size":64,"intermediate_size":96,"num_attention_heads":4,)"
      R"("num_hidden_layers":3,"vocab_size":1000)";
  CHECK(clips(olmo + R"(,"clip_qkv":8.0})"));
  CHECK_FALSE(clips(olmo + R"(,"clip_qkv":null})"));
  const std::string mpt =
      R"({"model_type":"mpt","d_model":64,"n_heads":4,"n_layers":2,"vocab_size":1000)";
  CHECK(clips(mpt + R"(,"attn_config":{"clip_qkv":6}})"));
  CHECK_FALSE(clips(mpt + R"(,"attn_config":{"clip_qkv":null}})"));
  const auto capped = io::read_hugging_face_config(
      R"({"model_type":"gemma3_text","hidden_size":64,"intermediate_size":96,)"
      R"("num_attention_heads":4,"num_key_value_heads":4,"num_hidden_layers":3,)"
      R"("vocab_size":1000,"final_logit_softcapping":30.0})");
  CHECK(capped.reason == "final_logit_softcapping must be null for this reader, not 30.0");
}

// The defaults of the configuration classes of transformers 5.23.
TEST_CASE("dropouts that a file leaves out are those of its class") {
  const std::string sizes =
      R"("hidden_size":64,"intermediate_size":64,"num_attention_heads":4,"num_hidden_layers":2,)"
      R"("vocab_size":99,"max_position_embeddings":64,"n_layer":2,"n_embd":64,"n_head":4,)"
      R"("n_positions":64,"d_model":64,"d_ff":64,"num_layers":2,"num_heads":4,"d_kv":16,)"
      R"("encoder_layers":2,"decoder_layers":2,"encoder_ffn_dim":64,"decoder_ffn_dim":64,)"
      R"("encoder_attention_heads":4,"decoder_attention_heads":4,"n_layers":2,"dim":64,)"
      R"("hidden_dim":64,"n_heads":4,"ffn_dim":64})";
  const auto read = [&](const std::string& type, const std::string& more = "") {
    const auto config =
        read_hugging_face_config(R"({"model_type":")" + type + "\"," + more + sizes);
    CHECK(config.reason == "");
    return config.dropouts;
  };
  struct case_of {
    const char* type;
    double hidden, attention;
  };
  for (const case_of& one : {case_of{"bert", 0.1, 0.1},
                             {"gpt2", 0.1, 0.1},
                             {"t5", 0.1, 0.1},
                             {"distilbert", 0.1, 0.1},
                             {"bart", 0.1, 0},
                             {"opt", 0.1, 0},
                             {"plbart", 0.1, 0.1},
                             {"seed_oss", 0.1, 0.1},
                             {"llama", 0, 0},
                             {"bloom", 0, 0},
                             {"albert", 0, 0}}) {
    CAPTURE(one.type);
    const gpuplan::layer_dropouts drops = read(one.type);
    CHECK(drops.hidden == one.hidden);
    CHECK(*drops.attention == one.attention);
  }
  CHECK(read("bert", R"("hidden_dropout_prob":0,)").hidden == 0);
  CHECK(*read("bert", R"("hidden_dropout_prob":0,)").attention == 0.1);
  CHECK(*read("bart").activation == 0);
  CHECK(*read("albert", R"("architectures":["AlbertForSequenceClassification"],)").classifier ==
        0.1);
  CHECK(*read("distilbert", R"("architectures":["DistilBertForSequenceClassification"],)")
             .classifier == 0.2);
  // Hidden dropout is not that of attention, whose own default is none.
  CHECK(*read("bloom", R"("hidden_dropout":0.1,)").attention == 0);
}

TEST_CASE("a class that is not the whole model is refused by its name") {
  const std::string t5 = R"({"model_type":"t5","num_layers":2,"d_model":64,"num_heads":4,)"
                         R"("d_ff":256,"d_kv":16,"vocab_size":512,"architectures":[)";
  CHECK(complaint(t5 + R"("T5Model"]})").empty());
  CHECK(has(complaint(t5 + R"("T5EncoderModel"]})"), "does not know T5EncoderModel"));
  CHECK(has(complaint(changed("architectures", R"(["LlamaForRewardModel"])")),
            "does not know LlamaForRewardModel"));
}

TEST_CASE("dimensions whose product 64 bits do not hold are refused by a field of the file") {
  const std::string bart = R"("encoder_layers":2,"decoder_layers":2,"encoder_ffn_dim":64,)"
                           R"("decoder_ffn_dim":64,"encoder_attention_heads":4,)"
                           R"("decoder_attention_heads":4,"vocab_size":99,"num_mel_bins":80,)"
                           R"("max_source_positions":64,"max_target_positions":64})";
  const std::string vit = R"("hidden_size":64,"intermediate_size":64,"num_attention_heads":4,)"
                          R"("num_hidden_layers":2,"patch_size":1,"image_size":4294967296})";
  const std::string tower = R"("hidden_size":64,"intermediate_size":64,"num_attention_heads":4,)"
                            R"("num_hidden_layers":2,"vision_use_head":false)";
  const std::string text = R"("hidden_size":64,"intermediate_size":64,"num_attention_heads":4,)"
                           R"("num_hidden_layers":2,"num_key_value_heads":4,"vocab_size":99)";
  const auto robot = [&](const char* dit, const char* state) {
    return R"({"model_type":"vla_composite","architectures":["LlamaModel"],)" + text +
           R"(,"vla_composite":{"vision":{"image_size":32,)" + tower + R"(},"dit":)" + dit +
           R"(,"state_dim":)" + state + R"(,"action_dim":4}})";
  };
  struct case_of {
    std::string config;
    std::string said;
  };
  const case_of cases[] = {
      {R"({"model_type":"whisper","d_model":4294967296,)" + bart,
       "d_model is 4294967296; at most 1048576 is taken"},
      {R"({"model_type":"deberta-v2","hidden_size":2147483648,"intermediate_size":64,)"
       R"("num_attention_heads":4,"num_hidden_layers":2,"vocab_size":99,)"
       R"("max_position_embeddings":64,"relative_attention":true,"pos_att_type":"p2c|c2p"})",
       "hidden_size is 2147483648"},
      {R"({"model_type":"wav2vec2","hidden_size":64,"intermediate_size":64,)"
       R"("num_attention_heads":4,"num_hidden_layers":2,"conv_dim":[8],"conv_kernel":[3],)"
       R"("conv_stride":[2],"mask_time_prob":0,"layerdrop":0,"feat_proj_dropout":0,)"
       R"("classifier_proj_size":1099511627776,"num_labels":1099511627776,)"
       R"("architectures":["Wav2Vec2ForSequenceClassification"]})",
       "classifier_proj_size is 1099511627776"},
      {R"({"model_type":"smolvlm","scale_factor":1099511627776,"text_config":{)" + text +
           R"(},"vision_config":{"image_size":1,"patch_size":2,)" + tower + "}}",
       "scale_factor must be a divisor of the patches of a side"},
      {R"({"model_type":"smolvlm","text_config":{)" + text +
           R"(},"vision_config":{"image_size":3,"patch_size":1,)" + tower + "}}",
       "scale_factor must be a divisor of the patches of a side, not absent"},
      {R"({"model_type":"pi0","max_state_dim":1099511627776,"vlm_config":{"projection_dim":64,)"
       R"("text_config":{)" +
           text + R"(},"vision_config":{)" + tower + R"(}},"dit_config":{)" + text + "}}",
       "max_state_dim is 1099511627776"},
      {robot(R"({"layers":2,"hidden":64,"heads":4})", "1099511627776"),
       "state_dim is 1099511627776"},
      {robot(R"({"layers":2,"hidden":4294967296,"heads":4})", "4"), "hidden is 4294967296"},
      {robot(R"({"layers":131072,"hidden":64,"heads":4})", "4"),
       "layers is 131072; at most 65536 is taken"},
      {R"({"model_type":"ijepa",)" + vit, "image_size must be fewer than 2^16 patches"},
      {R"({"model_type":"deit",)" + vit, "image_size must be fewer than 2^16 patches"},
      {R"({"model_type":"swin","depths":[2],"num_heads":[2],"use_absolute_embeddings":true,)" + vit,
       "image_size must be fewer than 2^16 patches"},
  };
  for (const case_of& one : cases) {
    CAPTURE(one.config);
    const std::string said = complaint(one.config);
    CHECK_MESSAGE(has(said, one.said), said);
  }
  const auto convolved = read_hugging_face_config(
      R"({"model_type":"mamba2","num_hidden_layers":1,"hidden_size":32,"vocab_size":99,)"
      R"("num_heads":1,"head_dim":64,"n_groups":1048576,"state_size":16384,)"
      R"("conv_kernel":4294967296})");
  REQUIRE(convolved.shape);
  CHECK(validate(*convolved.shape).why().code == errc::overflow);
}

TEST_CASE("an activation that has no name here is named, and so is a stored quantisation") {
  const auto unknown = [](const std::string& key, const std::string& value) {
    return read_hugging_face_config(changed(key, value)).unknown_keys;
  };
  CHECK(unknown("hidden_act", R"("mish")") == std::vector<std::string>{"hidden_act"});
  CHECK(unknown("quantization_config", R"({"quant_method":"bitsandbytes"})") ==
        std::vector<std::string>{"quantization_config"});
}

TEST_CASE("a key that the reader does not know is named, and left out") {
  const auto read = read_hugging_face_config(changed("mamba_d_state", "16"));
  CHECK(read.unknown_keys == std::vector<std::string>{"mamba_d_state"});
  CHECK(parameters(*read.shape).total() == 8'030'261'248);
}

TEST_CASE("what the reader cannot read is an error with key and value") {
  struct wrong {
    std::string config;
    std::vector<std::string> said;
  };
  const wrong cases[] = {
      {"", {"not a JSON object: parse error at line 1, column 1"}},
      {"[1]", {"not a JSON object"}},
      {"{", {"not a JSON object: parse error at line 1, column 2"}},
      {"{\n \"a\": 1e400}", {"number overflow parsing '1e400' at line 2, column 11"}},
      {"{}", {"model_type"}},
      {R"({"model_type":7})", {"model_type", "7"}},
      {R"({"model_type":"mamba9"})", {"mamba9", "the nearest is"}},
      {R"({"model_type":"dinov3_convnext"})",
       {"dinov3_convnext is made of convolutions", "it knows dinov3_vit"}},
      {changed("model_type", R"("gemma33")"), {"gemma33", "gemma3"}},
      {changed("hidden_size", ""), {"no hidden_size"}},
      {changed("hidden_size", "null"), {"no hidden_size"}},
      {changed("hidden_size", R"("4096")"), {"hidden_size", "\"4096\""}},
      {changed("hidden_size", "4096.5"), {"hidden_size", "4096.5"}},
      {changed("hidden_size", "4096.0"), {"hidden_size", "4096.0"}},
      {changed("hidden_size", "18446744073709551615"), {"hidden_size", "18446744073709551615"}},
      {changed("attention_bias", "1"), {"attention_bias", "1"}},
      {changed("architectures", R"(["LlamaForQuestionAnswering"])"), {"LlamaForQuestionAnswering"}},
      {changed("architectures", R"("LlamaForCausalLM")"), {"architectures"}},
      {changed("model_type", R"("mpt")"), {"no n_layers"}},
      {R"({"model_type":"mpt","d_model":64,"n_heads":4,"n_layers":2,"vocab_size":99,)"
       R"("expansion_ratio":2})",
       {"expansion_ratio", "2"}},
      {changed("model_type", R"("deepseek_v2")"), {"no kv_lora_rank"}},
      {changed("hidden_size", "-4096"), {"hidden_size", "from 0 to 2^40", "-4096"}},
      {R"({"model_type":"llama","hidden_act":)" + std::string(100'000, '[') +
           std::string(100'000, ']') + "}",
       {"nests deeper than 32"}},
      {R"({"model_type":"mistral","layer_types":)" + std::string(100'000, '[') +
           std::string(100'000, ']') + "}",
       {"nests deeper than 32"}},
      {R"({"model_type":"deepseek_v2","num_hidden_layers":2,"hidden_size":64,"vocab_size":99,)"
       R"("num_attention_heads":4,"kv_lora_rank":8,"qk_nope_head_dim":8,"qk_rope_head_dim":8,)"
       R"("v_head_dim":8,"intermediate_size":64,"n_routed_experts":4,"num_experts_per_tok":2,)"
       R"("moe_intermediate_size":4294967296,"n_shared_experts":4294967296})",
       {"n_shared_experts is 4294967296", "more than 2^40"}},
  };
  for (const wrong& w : cases) {
    CAPTURE(w.config);
    const std::string said = complaint(w.config);
    CAPTURE(said);
    for (const std::string& part : w.said) CHECK_MESSAGE(has(said, part), part);
    CHECK(!said.empty());
  }
}

TEST_CASE("a program is told which key is wrong, or which type") {
  const auto why = [](const std::string& config) {
    return read_hugging_face_config(config).shape.why();
  };
  const failure malformed(errc::malformed_config);
  CHECK(why("[1]") == malformed);
  CHECK(why("{}") == malformed.about("model_type"));
  CHECK(why(changed("hidden_size", "")) == malformed.about("hidden_size"));
  CHECK(why(changed("hidden_size", "-1")) == malformed.about("hidden_size"));
  CHECK(why(R"({"model_type":"llama"})") == malformed.about("num_hidden_layers"));  // the first
  CHECK(why(R"({"model_type":"mamba9"})") == failure(errc::unknown_model_type).about("mamba9"));
  CHECK(why(std::string(100, '[')) == malformed.about("its nesting"));
}

TEST_CASE("images of any size fit their windows, their text, and a step") {
  auto config = nlohmann::json::parse(
      R"({"model_type":"qwen2_5_vl","text_config":{"hidden_size":64,"intermediate_size":128,)"
      R"("num_hidden_layers":2,"num_attention_heads":2,"num_key_value_heads":1,"vocab_size":100},)"
      R"("vision_config":{"depth":2,"hidden_size":32,"intermediate_size":64,"num_heads":2,)"
      R"("out_hidden_size":64,"fullatt_block_indexes":[1]}})");
  const auto read = read_hugging_face_config(config.dump());
  REQUIRE(read.shape);
  gpuplan::composite_model model = read.composite;
  gpuplan::component& tower = model.parts[0];
  CHECK(tower.model.image.patches() == 32 * 32);
  const auto said = [&](std::int64_t tokens, std::int64_t micro_batch) -> std::string {
    const gpuplan::training_setup setup{.model = *read.shape,
                                        .composite = &model,
                                        .sequence_length = tokens,
                                        .precision = gpuplan::bf16_mixed,
                                        .framework = gpuplan::catalog::hugging_face_qwen_vl};
    const auto valid = validate(setup, gpuplan::batch_plan{.micro_batch = micro_batch});
    if (!valid) return gpuplan::failure_text(valid.why()).c_str();
    const auto step = gpuplan::detail::flaw_of_step(setup, {.micro_batch = micro_batch});
    return gpuplan::detail::failed(step) ? gpuplan::failure_text(step).c_str() : "";
  };
  CHECK(said(300, 2).empty());
  CHECK(has(said(255, 2), "sequence_length 255"));
  CHECK(has(said(255, 2), "at_least 256"));
  tower.model.image.grid_width = 31;
  CHECK(has(said(300, 2), "grid_width 31"));
  tower.model.image.grid_width = 0;
  CHECK(has(said(300, 2), "grid_width 0"));
  tower.model.image.grid_width = 32;
  CHECK(said(300, 256).empty());  // of 16 windows each
  CHECK(has(said(300, 257), "pieces 4112"));
  tower.model.image.window_size = 14;
  CHECK(has(said(300, 2), "window_size 14"));
  config["vision_config"]["fullatt_block_indexes"] = {2};
  CHECK(has(complaint(config.dump()), "fullatt_block_indexes must be at most 16 different layers"));
  config["vision_config"]["fullatt_block_indexes"] = {1};
  config["vision_config"]["spatial_merge_size"] = 0;
  CHECK(has(complaint(config.dump()), "spatial_merge_size must be from 1 to 64"));
  config["vision_config"]["spatial_merge_size"] = 2;
  config["vision_config"]["out_hidden_size"] = 65;
  CHECK(has(complaint(config.dump()), "out_hidden_size must be the language model's hidden_size"));
}

TEST_CASE("a configuration of more than 4 MiB is not read") {
  const std::string spaces(most_of_a_config - llama.size(), ' ');
  CHECK(complaint(llama + spaces).empty());
  CHECK(complaint(llama + spaces + ' ') == "it holds 4194305 bytes, and at most 4194304 are read");
}

TEST_CASE("PaliGemma without a field that its code needs is refused by that field") {
  auto config = nlohmann::json::parse(
      R"({"model_type":"paligemma","image_token_index":7,"projection_dim":64,)"
      R"("text_config":{"model_type":"gemma","hidden_size":64,"intermediate_size":128,)"
      R"("num_attention_heads":2,"num_hidden_layers":2,"vocab_size":500},)"
      R"("vision_config":{"model_type":"siglip_vision_model","hidden_size":64,"image_size":56,)"
      R"("intermediate_size":128,"num_attention_heads":2,"num_hidden_layers":2,"patch_size":14,)"
      R"("vision_use_head":false}})");
  CHECK(complaint(config.dump()).empty());
  config["vision_config"].erase("vision_use_head");
  CHECK(has(complaint(config.dump()), "vision_use_head must be false"));
}

TEST_CASE("OpenVLA's two towers see one image, and stand before a text") {
  auto config = nlohmann::json::parse(
      R"({"model_type":"openvla","timm_model_ids":["vit_large_patch14_reg4_dinov2.lvd142m",)"
      R"("vit_so400m_patch14_siglip_224"],"image_sizes":[224,224],)"
      R"("use_fused_vision_backbone":true,"text_config":{"hidden_size":128,)"
      R"("intermediate_size":888,"num_hidden_layers":5,"num_attention_heads":4,)"
      R"("head_dim":32,"vocab_size":32000,"model_type":"llama"}})");
  const auto read = read_hugging_face_config(config.dump());
  REQUIRE(read.shape);
  gpuplan::composite_model model = read.composite;
  gpuplan::training_setup setup{
      .model = *read.shape,
      .composite = &model,
      .sequence_length = 256 + 17,
      .precision = gpuplan::bf16_pure,
      .optimizer = {.kind = gpuplan::optimizer_kind::sgd_momentum, .clips_gradients = false},
      .framework = gpuplan::catalog::openvla};
  const auto said = [&]() -> std::string {
    const auto valid = validate(setup);
    return valid ? "" : gpuplan::failure_text(valid.why()).c_str();
  };
  CHECK(said().empty());
  // Frozen towers keep nothing: what PyTorch 2.15 with timm 0.9.16 asked for.
  for (int at = 0; at < 2; ++at) model.parts[at].trains.what = gpuplan::training::frozen;
  const auto step = gpuplan::replay(setup, {.micro_batch = 8, .accumulation = 2});
  REQUIRE(step);
  CHECK(step->peak.requested == 2'682'059'944);
  CHECK(step->peak.allocated == 2'708'658'688);

  setup.sequence_length = 257;
  CHECK(has(said(), "at_least 258"));
  setup.sequence_length = 300;
  model.parts[1].sequences = 2;
  CHECK(has(said(), "sequences 2"));
  model.parts[1].sequences = 1;
  model.parts[1].next.widths[0] = 2048;
  CHECK(has(said(), "joined_width 2048"));
  model.parts[1].next = {};
  CHECK(has(said(), "connector 0"));

  config["image_sizes"] = {224, 384};
  CHECK(has(complaint(config.dump()), "image_sizes must be alike"));
  config["image_sizes"] = {384, 384};
  CHECK(complaint(config.dump()).empty());
  config["image_sizes"] = {13, 13};
  CHECK(has(complaint(config.dump()), "image_sizes must be from 14 to 4096"));
  config["image_sizes"] = {224};
  CHECK(has(complaint(config.dump()), "must be of two towers"));
  config["image_sizes"] = {224, 224};
  config["timm_model_ids"][1] = "vit_base_patch16_clip_224";
  CHECK(has(complaint(config.dump()), "does not know vit_base_patch16_clip_224 as a tower"));
  config["timm_model_ids"][1] = "vit_so400m_patch14_siglip_224";
  config["use_fused_vision_backbone"] = false;
  CHECK(has(complaint(config.dump()), "use_fused_vision_backbone"));
}

TEST_CASE("all parameters of a composite model train, and are those of its parts and others") {
  const std::string config =
      R"({"model_type":"qwen3_vl","text_config":{"hidden_size":64,"intermediate_size":128,)"
      R"("num_attention_heads":2,"num_hidden_layers":4,"num_key_value_heads":1,"vocab_size":500},)"
      R"("vision_config":{"depth":3,"hidden_size":32,"intermediate_size":64,"num_heads":2,)"
      R"("out_hidden_size":64,"deepstack_visual_indexes":[0,1]}})";
  gpuplan::composite_model model = read_hugging_face_config(config).composite;
  REQUIRE(model.size() == 2);
  // Two mergers of four patches of 32: a norm, and layers from 128 to 128 and from there to 64.
  CHECK(model.other_parameters == 2 * 32 + 2 * (2 * 128 + 129 * 128 + 129 * 64));
  CHECK(trainable_parameters(model) == parameters(model).total());
  model.others_train = false;
  CHECK(trainable_parameters(model) == parameters(model).total() - model.other_parameters);
}

namespace {

// Every number, switch and name of what was read, one behind the other.
template <class T>
void write_out(const T& object, std::vector<double>& into) {
  if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>)
    into.push_back(static_cast<double>(object));
  else if constexpr (std::is_pointer_v<T>)
    into.push_back(static_cast<double>(reinterpret_cast<std::uintptr_t>(object)));
  else if constexpr (fields::is_known<T>::value)
    write_out(object ? *object : decltype(*object + 0){-1}, into);
  else if constexpr (std::is_array_v<T>)
    for (const auto& each : object) write_out(each, into);
  else
    fields::for_each_member(object, [&](const auto& member) { write_out(member, into); });
}
std::vector<double> written_out(const hugging_face_config& read) {
  std::vector<double> numbers;
  const auto write_model = [&](transformer model) {
    if (model.num_attention_heads != 0) {  // whether it is said or follows
      model.num_key_value_heads = model.key_value_heads();
      model.head_dim = model.query_dim();
    }
    write_out(model, numbers);
  };
  write_model(*read.shape);
  for (int which = 0; which < read.composite.size(); ++which) {
    component part = read.composite.parts[which];
    write_model(part.model);
    part.model = {};
    write_out(part, numbers);
  }
  write_out(read.composite.actions, numbers);
  write_out(read.composite.other_parameters, numbers);
  write_out(read.dropouts, numbers);
  return numbers;
}

// What a file may leave out: its keys, and those of configurations within.
void list_keys(const nlohmann::json& object,
               const nlohmann::json& given,
               const nlohmann::json::json_pointer& at,
               std::vector<nlohmann::json::json_pointer>& into) {
  for (const auto& item : object.items()) {
    const auto here = at / item.key();
    const bool is_given = given.contains(item.key());
    if (item.value().is_object() && std::string_view(item.key()).ends_with("_config"))
      list_keys(
          item.value(), is_given ? given.at(item.key()) : nlohmann::json::object(), here, into);
    if (!is_given && item.key() != "model_type") into.push_back(here);
  }
}

}  // namespace

// Each line: the configuration of a class of transformers 5.24 that is given no more than `given`.
TEST_CASE("what a configuration leaves out is the default of its class") {
  std::ifstream file(GPUPLAN_CLASS_DEFAULTS);
  std::vector<std::string> types;
  for (std::string line; std::getline(file, line);) {
    const auto row = nlohmann::json::parse(line);
    auto config = row.at("all");
    types.push_back(config.at("model_type"));
    CAPTURE(types.back());
    const auto all = read_hugging_face_config(config.dump());
    CHECK_MESSAGE(all.shape, all.reason);
    if (!all.shape) continue;
    const std::vector<double> wanted = written_out(all);
    std::vector<nlohmann::json::json_pointer> keys;
    list_keys(config, row.at("given"), nlohmann::json::json_pointer(), keys);
    for (const auto& key : keys) {
      CAPTURE(key.to_string());
      auto shorter = config;
      shorter[key.parent_pointer()].erase(key.back());
      const auto read = read_hugging_face_config(shorter.dump());
      if (has(read.reason, "config.json has no ")) continue;  // a file says that itself
      CHECK(read.reason.empty());
      const bool is_same = read.shape && written_out(read) == wanted;
      CHECK(is_same);
      if (is_same) config = shorter;
    }
  }
  for (const std::string_view type : hugging_face_model_types())
    if (type != "openvla" && type != "vla_composite" && type != "gr00t_composite") {
      CAPTURE(std::string(type));
      CHECK(std::count(types.begin(), types.end(), type) == 1);
    }
}

TEST_CASE("layers that a step may leave out are all counted") {
  const std::string opt =
      R"({"model_type":"opt","hidden_size":64,"ffn_dim":128,"num_attention_heads":4,)"
      R"("num_hidden_layers":2,"vocab_size":99,"max_position_embeddings":64)";
  const auto read = read_hugging_face_config(opt + R"(,"layerdrop":0.1})");
  CHECK(read.unknown_keys == std::vector<std::string>{"layerdrop"});
  CHECK(total(opt + R"(,"layerdrop":0.1})") == total(opt + "}"));
  CHECK(read_hugging_face_config(opt + R"(,"layerdrop":0})").unknown_keys.empty());
  CHECK(read_hugging_face_config(opt + R"(,"other":null})").unknown_keys.empty());
}

TEST_CASE("a masked waveform is refused, whether the file says it or its class") {
  const std::string wave =
      R"({"model_type":"wav2vec2","hidden_size":64,"intermediate_size":64,"conv_dim":[8],)"
      R"("num_attention_heads":4,"num_hidden_layers":2,"conv_kernel":[3],"conv_stride":[2])";
  CHECK(complaint(wave + "}") ==
        "mask_time_prob must be 0 for this reader; left out, it is 0.05 in transformers' class of "
        "wav2vec2");
  CHECK(complaint(wave + R"(,"mask_time_prob":0.1})") ==
        "mask_time_prob must be 0 for this reader, not 0.1");
  CHECK(complaint(wave + R"(,"mask_time_prob":0,"layerdrop":0.1})").empty());
}

TEST_CASE("numbers that only Python writes are read over") {
  const std::string mamba =
      R"({"model_type":"mamba2","num_hidden_layers":2,"_name_or_path":"Infinity \"NaN",)"
      R"("time_step_limit":[0.0, Infinity],"time_step_min":-Infinity,"time_step_max": NaN)";
  CHECK(complaint(mamba + "}").empty());
  CHECK(has(complaint(mamba + ",}"), "column " + std::to_string(mamba.size() + 2)));
}
