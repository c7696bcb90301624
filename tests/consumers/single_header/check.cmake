# Makes the single headers, and compiles consumers with them and with the headers that they are made of: both
# must print the same.
#   cmake -D PYTHON=<interpreter> -D CXX=<compiler> -D PROJECT=<project> -D WORK_DIR=<scratch folder> -P check.cmake
cmake_minimum_required(VERSION 3.24)

file(REMOVE_RECURSE "${WORK_DIR}")
execute_process(COMMAND "${PYTHON}" "${PROJECT}/cmake/single_header/make.py" "${WORK_DIR}/one"
                        COMMAND_ERROR_IS_FATAL ANY)
file(WRITE "${WORK_DIR}/many/gpuplan_plan.hpp"
     "#include <gpuplan/gpuplan.hpp>\n#include <gpuplan/memory/layouts.hpp>\n")
file(WRITE "${WORK_DIR}/many/gpuplan_solver.hpp" "#include <gpuplan/gpuplan.hpp>\n")

# run(<consumer> <variable for what it prints> <option>...)
function(run consumer printed)
  execute_process(
    COMMAND "${CXX}" -std=c++20 -ffp-contract=off -Wall -Wextra -Werror ${ARGN}
            "${PROJECT}/tests/consumers/single_header/${consumer}.cpp" -o "${WORK_DIR}/${consumer}"
            COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${WORK_DIR}/${consumer}" OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
  set(${printed} "${said}" PARENT_SCOPE)
endfunction()

foreach(consumer IN ITEMS solver plan)
  run(${consumer} by_one -I "${WORK_DIR}/one")
  run(${consumer} by_many -I "${WORK_DIR}/many" -I "${PROJECT}/include")
  if(by_one STREQUAL "" OR NOT by_one STREQUAL by_many)
    message(FATAL_ERROR "${consumer}: '${by_one}' by one file, '${by_many}' by the headers")
  endif()
endforeach()

# What a link of Compiler Explorer is made from: its source says the same, and is the one that the page shows.
execute_process(COMMAND "${PYTHON}" "${PROJECT}/cmake/single_header/compiler_explorer.py"
                        "${PROJECT}/tests/consumers/single_header/solver.cpp" OUTPUT_VARIABLE state COMMAND_ERROR_IS_FATAL ANY)
string(JSON source GET "${state}" sessions 0 source)
file(WRITE "${WORK_DIR}/link/solver.cpp" "${source}")
execute_process(COMMAND "${CXX}" -std=c++20 "${WORK_DIR}/link/solver.cpp" -o "${WORK_DIR}/link/solver" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${WORK_DIR}/link/solver" OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
file(READ "${PROJECT}/tests/consumers/single_header/solver.cpp" shown)
string(REGEX REPLACE "^//[^\n]*\n" "" shown "${shown}")
file(READ "${PROJECT}/docs/compiler_explorer.md" page)
string(FIND "${page}" "${shown}" found)
if(NOT said STREQUAL "15 x 2\n" OR found EQUAL -1)
  message(FATAL_ERROR "a link prints '${said}'; docs/compiler_explorer.md shows its source at ${found}")
endif()
