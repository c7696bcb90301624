// A model from its config.json.
#include <gpuplan/io/hugging_face_config.hpp>
#include <gpuplan/parameters.hpp>

int main() {
  const auto read = gpuplan::io::read_hugging_face_config(
      R"({"model_type":"llama","hidden_size":2048,"intermediate_size":8192,"vocab_size":128256,)"
      R"("num_attention_heads":32,"num_key_value_heads":8,"num_hidden_layers":16,)"
      R"("tie_word_embeddings":true})");
  return read.shape && gpuplan::parameters(*read.shape).total() == 1'235'814'400 ? 0 : 1;
}
