# Compiles each header alone, and compares the template instantiations of the public ones with their
# budget. Unlike seconds they repeat exactly, for one version of the compiler and of the libraries:
# others are an error.
#   cmake -D CXX=<clang++> -D INCLUDE_DIR=<folder that holds gpuplan/> -D WORK_DIR=<scratch folder>
#         -P count_instantiations.cmake
cmake_minimum_required(VERSION 3.24)

file(REAL_PATH "${INCLUDE_DIR}" INCLUDE_DIR)
cmake_path(ABSOLUTE_PATH WORK_DIR)
file(REMOVE_RECURSE "${WORK_DIR}")

file(GLOB_RECURSE headers RELATIVE "${INCLUDE_DIR}/gpuplan" "${INCLUDE_DIR}/gpuplan/*.hpp")
set(without_budget "${headers}")
list(FILTER without_budget EXCLUDE REGEX "^(detail|replay|catalog/gpus|io/hugging_face|training_setup)/") # private
file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/budget.txt" lines REGEX "^[^#]")
foreach(line IN LISTS lines)
  if(NOT line MATCHES "^([^ ]+) ([0-9]+)$")
    message(FATAL_ERROR "not '<header> <count>': ${line}")
  elseif(NOT CMAKE_MATCH_1 STREQUAL "reference" AND NOT CMAKE_MATCH_1 IN_LIST headers)
    message(FATAL_ERROR "a budget, but no header: ${CMAKE_MATCH_1}")
  endif()
  list(REMOVE_ITEM without_budget "${CMAKE_MATCH_1}")
endforeach()
if(without_budget)
  message(FATAL_ERROR "headers without a budget: ${without_budget}")
endif()

# As many at a time as there are processors.
set(names "")
foreach(header IN LISTS headers ITEMS reference)
  string(MAKE_C_IDENTIFIER "${header}" name)
  string(APPEND names "${name}\n")
  if(header STREQUAL "reference")
    file(WRITE "${WORK_DIR}/${name}.cpp" "#include <boost/units/quantity.hpp>\n")
  else()
    file(WRITE "${WORK_DIR}/${name}.cpp" "#include <gpuplan/${header}>\n")
  endif()
endforeach()
file(WRITE "${WORK_DIR}/names.txt" "${names}")
cmake_host_system_information(RESULT processors QUERY NUMBER_OF_LOGICAL_CORES)
execute_process(
  COMMAND xargs -P ${processors} -I NAME "${CXX}" -std=c++20 -I "${INCLUDE_DIR}" -ftime-trace
          -ftime-trace-granularity=0 -c NAME.cpp -o NAME.o
  WORKING_DIRECTORY "${WORK_DIR}" INPUT_FILE "${WORK_DIR}/names.txt" COMMAND_ERROR_IS_FATAL ANY)

set(over "")
foreach(line IN LISTS lines)
  string(REGEX MATCH "^([^ ]+) ([0-9]+)$" line "${line}")
  set(header "${CMAKE_MATCH_1}")
  set(budget "${CMAKE_MATCH_2}")
  string(MAKE_C_IDENTIFIER "${header}" name)
  file(READ "${WORK_DIR}/${name}.json" trace)
  string(REGEX MATCHALL "\"name\":\"Instantiate(Class|Function)\"" events "${trace}")
  list(LENGTH events count)
  message(STATUS "${header}: ${count} of ${budget}")
  if(header STREQUAL "reference" AND NOT count EQUAL budget)
    message(FATAL_ERROR "not comparable: boost/units/quantity.hpp costs ${count}, and by the budget "
                        "${budget}")
  elseif(count GREATER budget)
    string(APPEND over "  ${header}: ${count} instantiations, budget ${budget}\n")
  endif()
endforeach()
if(over)
  message(FATAL_ERROR "over the budget of compile time:\n${over}")
endif()
