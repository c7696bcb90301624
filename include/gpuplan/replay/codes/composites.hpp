#pragma once

// The code of all models of several transformers. Private.

#include <gpuplan/catalog/frameworks/hugging_face_composites.hpp>
#include <gpuplan/catalog/frameworks/hugging_face_images.hpp>
#include <gpuplan/replay/codes/composites/action_head.hpp>
#include <gpuplan/replay/codes/composites/composite.hpp>
#include <gpuplan/replay/codes/composites/flow_matching.hpp>
#include <gpuplan/replay/codes/composites/gemma3.hpp>
#include <gpuplan/replay/codes/composites/internvl.hpp>
#include <gpuplan/replay/codes/composites/joined_images.hpp>
#include <gpuplan/replay/codes/composites/openvla.hpp>
#include <gpuplan/replay/codes/composites/pi0.hpp>
#include <gpuplan/replay/codes/composites/qwen_vl.hpp>
#include <gpuplan/replay/codes/composites/smolvlm.hpp>
#include <gpuplan/replay/codes/composites/two_towers.hpp>
#include <gpuplan/replay/model_code.hpp>

namespace gpuplan::eager {

inline constexpr known_code codes_of_composites[] = {
    {&code_names::clip, &code_of<clip_code>},
    {&code_names::cohere2_vision, &code_of<cohere2_vision_code>},
    {&code_names::deepseek_vl, &code_of<deepseek_vl_code>},
    {&code_names::gemma3, &code_of<gemma3_code>},
    {&code_names::internvl, &code_of<internvl_code>},
    {&code_names::flow_matching, &code_of<flow_matching_code>},
    {&code_names::llava, &code_of<llava_code>},
    {&code_names::openvla, &code_of<openvla_code>},
    {&code_names::paligemma, &code_of<paligemma_code>},
    {&code_names::pi0, &code_of<pi0_code>},
    {&code_names::qwen_vl, &code_of<qwen_vl_code>},
    {&code_names::siglip, &code_of<siglip_code>},
    {&code_names::smolvlm, &code_of<smolvlm_code>},
    {&code_names::vision_language_action, &code_of<vision_language_action_code>}};

}  // namespace gpuplan::eager
