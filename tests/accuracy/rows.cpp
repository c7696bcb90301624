// What becomes of rows that are wrong, incomplete or beyond what the library describes.

#include <string>
#include <string_view>
#include <vector>

#include "check.hpp"
#include "compare.hpp"
#include "csv.hpp"
#include "files.hpp"

using namespace accuracy;

namespace {

constexpr std::string_view model_columns =
    "id,architecture,norm,norms_per_layer,layers,hidden_size,intermediate_size,"
    "num_attention_heads,num_key_value_heads,head_dim,vocab_size,tied_embeddings,gated_mlp,"
    "mlp_bias,attention_bias,attention_out_bias,norm_bias,final_norm,qk_norm,parallel_attention,"
    "num_experts,experts_per_token,moe_intermediate_size,params_total_exact,sum_of,extra_params\n";
constexpr std::string_view adapter_columns =
    "id,method,rank,target_modules,target_shapes,extra_trained,trainable_params_exact,"
    "models_csv_id\n";

// 2 layers of 8: 64 of the table, 2 x (4 x 64 + 2 x 8 x 16 + 2 x 8) + 8 of the rest.
constexpr std::string_view small_model =
    ",decoder,rmsnorm,2,2,8,16,2,2,4,8,1,0,0,0,0,0,1,0,0,,,,1128,,\n";

std::vector<comparison> compare_text(const std::vector<std::string>& texts) {
  std::vector<csv_file> files;
  for (const std::string& text : texts) files.push_back(read_csv(short_file(text).path()));
  std::vector<comparison> all;
  for (const file_comparison& file : compare(files))
    all.insert(all.end(), file.comparisons.begin(), file.comparisons.end());
  return all;
}

std::string with(std::string_view columns, const std::vector<std::string>& rows) {
  std::string text(columns);
  for (const std::string& row : rows) text += row;
  return text;
}

std::string model(const std::string& id) { return id + std::string(small_model); }

std::string why_not(const std::string& rows) {
  const auto all = compare_text({with(model_columns, {rows})});
  REQUIRE(all.size() == 1);
  return all[0].predicted.why_not;
}

std::string why_no_adapters(const std::string& row) {
  const auto all = compare_text({with(model_columns, {model("m")}), with(adapter_columns, {row})});
  REQUIRE(all.size() == 2);
  return all[1].predicted.why_not;
}

std::string complaint(const std::string& text) {
  try {
    static_cast<void>(compare_text({text}));
  } catch (const bad_file& error) {
    const std::string what = error.what();
    return what.substr(what.find(".csv") + 4);
  }
  return "nothing";
}

}  // namespace

TEST_CASE("a small model is what its shape says") {
  const auto all = compare_text({with(model_columns, {model("m")})});
  REQUIRE(all.size() == 1);
  CHECK(all[0].id == "m");
  CHECK(all[0].error() == 0);
}

TEST_CASE("a model that is none is skipped with the library's sentence") {
  CHECK(why_not("m,decoder,rmsnorm,2,2,9,16,2,2,,8,1,0,0,0,0,0,1,0,0,,,,7,,\n") ==
        "attention heads must divide evenly: hidden_size by num_attention_heads where head_dim is "
        "not stated, and num_attention_heads by num_key_value_heads: num_attention_heads 2, "
        "hidden_size 9");
  CHECK(why_not("m,decoder,rmsnorm,2,2,8,16,2,2,4,8,1,0,0,0,0,0,1,0,0,2,3,4,7,,\n")
            .starts_with("a token cannot be sent to more experts than a layer has"));
  CHECK(why_not("m,decoder,rmsnorm,2,60000,1e12,1e12,2,2,4,8,1,0,0,0,0,0,1,0,0,,,,7,,\n")
            .starts_with("the product of these values does not fit into 64 bits"));
  CHECK(why_not("m,state space,rmsnorm,2,2,8,16,2,2,4,8,1,0,0,0,0,0,1,0,0,,,,7,,\n") ==
        "architecture 'state space' is none of decoder, encoder, encoder_decoder, vision");
}

TEST_CASE("rows without a measurement are not compared") {
  CHECK(compare_text(
            {with(model_columns, {"m,decoder,rmsnorm,2,2,8,16,2,2,4,8,1,0,0,0,0,0,1,0,0,,,,,,\n"})})
            .empty());
}

TEST_CASE("sums of models") {
  const std::string sum = ",decoder,,,,,,,,,,,,,,,,,,,,,,2266,m+m,10\n";
  const auto all = compare_text({with(model_columns, {model("m"), "twice" + sum})});
  REQUIRE(all.size() == 2);
  CHECK(all[1].error() == 0);
  CHECK(why_not("twice" + sum) == "model m is in none of the files");
  CHECK(why_not("m" + sum).find("sum_of leads back to the model itself") != std::string::npos);
}

TEST_CASE("an id that two models have") {
  const std::string other = "m,decoder,rmsnorm,2,3,8,16,2,2,4,8,1,0,0,0,0,0,1,0,0,,,,1660,,\n";
  const std::string adapters = with(adapter_columns, {"a,lora,2,q_proj,,0,64,m\n"});
  const auto twice = compare_text(
      {with(model_columns, {model("m")}), with(model_columns, {model("m")}), adapters});
  CHECK(twice.back().error() == 0);
  const auto differ =
      compare_text({with(model_columns, {model("m")}), with(model_columns, {other}), adapters});
  CHECK(differ.back().predicted.why_not == "the files have several models m");
}

TEST_CASE("adapters that cannot be counted say why") {
  CHECK(why_no_adapters("a,lora,2,\"q_proj,v_proj\",,0,128,m\n").empty());
  CHECK(why_no_adapters("a,lora,2,mystery,,0,128,m\n") == "no layer is known by the name mystery");
  CHECK(why_no_adapters("a,vera,2,q_proj,,0,128,m\n") ==
        "what trains with method vera is not known");
  CHECK(why_no_adapters("a,lora,2,,,0,128,m\n") ==
        "the row does not say which layers have adapters");
  CHECK(why_no_adapters("a,lora,2,q_proj,,0,128,other\n") == "model other is in none of the files");
  CHECK(why_no_adapters("a,lora,2,q_proj,,0,128,\n") == "the row names no model and no shapes");
  CHECK(why_no_adapters("a,lora,0,q_proj,,0,128,m\n")
            .starts_with("this value must be greater than zero"));
}

TEST_CASE("bad cells are named with line and column, whatever their row measured") {
  CHECK(complaint(
            with(model_columns,
                 {model("m"), "n,decoder,rmsnorm,2,two,8,16,2,2,4,8,1,0,0,0,0,0,1,0,0,,,,,,\n"})) ==
        ":3:5: layers is not a number: two");
  CHECK(complaint(with(adapter_columns, {"a,lora,2,q_proj,3x(4-4),0,128,\n"})) ==
        ":2:5: target_shapes has a part that is not like 16x(2048->512): 3x(4-4)");
}

TEST_CASE("a file that lacks few columns of a kind is no stranger") {
  std::string columns(adapter_columns);
  columns.replace(columns.find("extra_trained"), 13, "extra");
  CHECK(complaint(columns) ==
        ":1: there is no column extra_trained, as in other files of adapters");
  CHECK(complaint("a,b,c\n1,2,3\n") == "nothing");
}
