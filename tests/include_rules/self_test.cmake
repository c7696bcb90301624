# check.cmake must accept a good tree and reject each kind of bad one, with its reason.
#   cmake -D WORK_DIR=<scratch folder> -P self_test.cmake
cmake_minimum_required(VERSION 3.24)

# check(<complaint or nothing> <header> <include line>): a good tree in which one header has one
# more line.
function(check complaint header line)
  file(REMOVE_RECURSE "${WORK_DIR}")
  set(root "${WORK_DIR}/gpuplan")
  file(WRITE "${root}/units.hpp" "#pragma once\n#include <boost/units/quantity.hpp>\n")
  file(WRITE "${root}/gpu.hpp" "#pragma once\n#include <gpuplan/units.hpp>\n#include <cstdint>\n")
  file(WRITE "${root}/catalog/gpus.hpp" "#pragma once\n#include <gpuplan/gpu.hpp>\n")
  file(WRITE "${root}/time/affine.hpp" "#pragma once\n#include <gpuplan/gpu.hpp>\n")
  file(WRITE "${root}/time/other.hpp" "#pragma once\n#include <gpuplan/time/affine.hpp>\n")
  file(WRITE "${root}/solver.hpp" "#pragma once  // not boost:: here\n")
  file(WRITE "${root}/gpuplan.hpp"
       "#pragma once\n#include <gpuplan/catalog/gpus.hpp>\n#include <gpuplan/time/other.hpp>\n"
       "#include <gpuplan/solver.hpp>\n")
  file(WRITE "${root}/io/text.hpp" "#pragma once\n#include <string>\n#include <gpuplan/gpuplan.hpp>\n")
  file(WRITE "${root}/cuda/copy.cuh" "#pragma once\n#include <cuda_runtime.h>\n")
  file(APPEND "${root}/${header}" "${line}\n")
  execute_process(
    COMMAND ${CMAKE_COMMAND} -D INCLUDE_DIR=${WORK_DIR} -P ${CMAKE_CURRENT_LIST_DIR}/check.cmake
    RESULT_VARIABLE exit_code
    OUTPUT_QUIET
    ERROR_VARIABLE said)
  if(NOT complaint AND NOT exit_code EQUAL 0)
    message(FATAL_ERROR "a good tree is rejected:\n${said}")
  elseif(complaint AND (exit_code EQUAL 0 OR NOT said MATCHES "${complaint}"))
    message(FATAL_ERROR "'${line}' in ${header} does not give '${complaint}':\n${said}")
  endif()
endfunction()

check("" solver.hpp "#include <gpuplan/time/affine.hpp>")
check("stands below it" gpu.hpp "#include <gpuplan/solver.hpp>")
check("cycle of includes" time/affine.hpp "#include <gpuplan/time/other.hpp>")
check("not the catalogue" solver.hpp "#include <gpuplan/catalog/gpus.hpp>")
check("only units.hpp may" gpu.hpp "#include <boost/units/unit.hpp>")
check("only units.hpp may" gpu.hpp "using x = boost::units::quantity<int>;")
check("" io/text.hpp "#include <nlohmann/json.hpp>")
check("only io/ may" gpu.hpp "#include <nlohmann/json.hpp>")
check("only io/ may" cuda/copy.cuh "using x = nlohmann::json;")
check("only the edges may" solver.hpp "#include <string>")
check("only the edges may" solver.hpp "#  include <cuda_runtime.h>")
check("stands below it" io/text.hpp "#include <gpuplan/cuda/copy.cuh>")
check("cuda/other.cuh lacks #pragma once" cuda/other.cuh "#include <gpuplan/units.hpp>")
check("write <gpuplan" solver.hpp "#include \"gpu.hpp\"")
check("has no place" newcomer.hpp "#pragma once")
check("lacks #pragma once" cost.hpp "")
check("does not bring cost.hpp" cost.hpp "#pragma once")
check("ask for a property" solver.hpp "const bool is = by == &engine_classes::fsdp2;")
