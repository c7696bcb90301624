// Trainable parameters against those that PEFT 0.21 makes.

#include "counted_models.hpp"

#include <gpuplan/parameters.hpp>

#include <cstdint>
#include <string_view>

#include "check.hpp"

namespace {

using namespace gpuplan;

struct counted_adapters {
  std::string_view model;
  lora adapters;
  std::int64_t trainable;
};

// clang-format off: a row in few lines
constexpr counted_adapters setups[] = {
    {"llama_20",
     {.rank = 5,
      .targets = {.query = true,
                  .key = true,
                  .value = true,
                  .attention_out = true,
                  .gate = true,
                  .up = true,
                  .down = true},
      .copy_embedding = true},
     25'913'424},
    {"llama_24", {.rank = 1, .targets = {.gate = true, .up = true, .down = true}}, 73'872},
    {"llama_04", {.rank = 16, .targets = {.down = true}, .bias = lora_bias::adapted}, 109'728},
    {"qwen2_04", {.rank = 16, .targets = all_linear}, 2'358'272},
    {"qwen3_11", {.rank = 16, .targets = query_and_value, .copy_embedding = true}, 6'453'536},
    {"qwen3_11", {.rank = 32, .targets = {.up = true}}, 53'760},
    {"qwen3_11",
     {.rank = 1,
      .targets = query_and_value,
      .bias = lora_bias::all,
      .copy_embedding = true,
      .copy_head = true},
     12'803'552},
    {"vit_02", {.rank = 64, .targets = query_and_value}, 1'228'800},
    {"bert_06", {.rank = 4, .targets = all_linear, .bias = lora_bias::adapted}, 418'392},
    {"bert_06",
     {.rank = 8, .targets = {.query = true, .key = true, .value = true}, .bias = lora_bias::all},
     392'856},
    {"bert_06",
     {.rank = 16, .targets = {.attention_out = true, .up = true, .down = true, .other = true}},
     824'064},
    {"gpt2_04",
     {.rank = 2, .targets = all_linear, .copy_embedding = true, .copy_head = true},
     186'988'928},
    {"gpt2_08", {.rank = 1, .targets = {.up = true}, .bias = lora_bias::adapted}, 186'880},
    {"gpt2_01_b", {.rank = 2, .targets = {.query = true, .key = true, .value = true}}, 2'880},
    {"gpt2_01_b",
     {.rank = 8, .targets = {.attention_out = true, .down = true}, .bias = lora_bias::all},
     24'240},
    {"falcon_01_b",
     {.rank = 8, .targets = {.query = true, .key = true, .value = true}, .bias = lora_bias::all},
     21'228},
    {"bloom_01_b", {.rank = 5, .targets = {.query = true, .key = true, .value = true}}, 10'080},
    {"bloom_01_b", {.rank = 4, .targets = all_linear, .bias = lora_bias::adapted}, 36'792},
    {"phi3_01_b",
     {.rank = 2,
      .targets = {.query = true, .key = true, .value = true},
      .bias = lora_bias::adapted},
     2'560},
    {"phi3_01_b",
     {.rank = 16, .targets = {.gate = true, .up = true}, .bias = lora_bias::all},
     244'736},
    {"phi3_01_b", {.rank = 5, .targets = all_linear}, 125'120},
    {"t5_01_b", {.rank = 8, .targets = query_and_value, .bias = lora_bias::adapted}, 43'520},
    {"t5_02_b",
     {.rank = 8,
      .targets = {.query = true, .key = true, .value = true, .attention_out = true},
      .bias = lora_bias::all},
     46'080},
    {"mt5_02_b", {.rank = 5, .targets = all_linear, .bias = lora_bias::adapted}, 48'300},
    {"umt5_01_b", {.rank = 16, .targets = all_linear, .bias = lora_bias::all}, 489'712},
    {"deepseek_v3_03_b",
     {.rank = 1,
      .targets = {.query = true,
                  .attention_out = true,
                  .query_down = true,
                  .key_value_down = true,
                  .key_value_up = true},
      .bias = lora_bias::adapted},
     3'718},
    {"minicpm3_01_b", {.rank = 1, .targets = all_linear}, 21'840},
    {"vit_01_b", {.rank = 2, .targets = query_and_value, .bias = lora_bias::adapted}, 1'920},
    {"vit_01_b", {.rank = 8, .targets = all_linear, .bias = lora_bias::all}, 33'853},
    {"distilbert_01_b", {.rank = 16, .targets = query_and_value, .bias = lora_bias::all}, 30'048},
    {"dinov2_03_b", {.rank = 2, .targets = all_linear, .bias = lora_bias::all}, 15'891},
    {"dinov2_with_registers_01_b",
     {.rank = 4, .targets = {.gate = true, .up = true, .down = true}},
     11'520},
    {"phi_01_b", {.rank = 5, .targets = all_linear, .bias = lora_bias::adapted}, 67'452},
    {"gptj_01_b", {.rank = 4, .targets = query_and_value}, 2'560},
    {"codegen_01_b",
     {.rank = 16,
      .targets = {.query = true, .key = true, .value = true},
      .bias = lora_bias::adapted},
     102'400},
    {"starcoder2_01_b", {.rank = 16, .targets = all_linear}, 44'032},
};
// clang-format on

constexpr std::string_view first_wrong() {
  for (const counted_adapters& row : setups) {
    const transformer& model = shape_of(row.model);
    const trainable trains{.what = training::adapters, .adapters = row.adapters};
    if (!validate(trains, model) || trainable_parameters(model, trains) != row.trainable)
      return row.model;
  }
  return "";
}

}  // namespace

TEST_CASE("trainable parameters of 36 set-ups of adapters, to the integer") {
  STATIC_CHECK(first_wrong() == "");
}

TEST_CASE("as many last layers train as there are") {
  CONSTEXPR transformer model = shape_of("llama_20");
  CONSTEXPR auto last = [](std::int64_t layers) {
    return trainable{.what = training::last_layers, .last_layers = layers};
  };
  STATIC_CHECK(validate(last(1), model));
  STATIC_CHECK(validate(last(model.layers()), model));
  STATIC_CHECK(validate(last(0), model).why() ==
               failure(errc::out_of_bounds,
                       named_fact{fact::last_layers, 0},
                       named_fact{fact::at_least, 1},
                       named_fact{fact::at_most, model.layers()}));
  STATIC_CHECK(validate(last(model.layers() + 1), model).why()[fact::at_most] == model.layers());
}
