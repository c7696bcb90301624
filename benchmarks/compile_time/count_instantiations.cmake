# Compares the template instantiations of public headers with their budget. Unlike seconds they
# repeat exactly, for one version of the compiler and of the libraries: with others, nothing is compared.
#   cmake -D CXX=<clang++> -D INCLUDE_DIR=<folder that holds gpuplan/> -D WORK_DIR=<scratch folder>
#         [-D REQUIRED=ON] -P count_instantiations.cmake
# REQUIRED makes other versions an error.
cmake_minimum_required(VERSION 3.24)

function(count header result)
  string(MAKE_C_IDENTIFIER "${header}" name)
  set(source "${WORK_DIR}/${name}.cpp")
  file(WRITE "${source}" "#include <${header}>\n")
  execute_process(
    COMMAND "${CXX}" -std=c++20 -I "${INCLUDE_DIR}" -ftime-trace -ftime-trace-granularity=0 -c
            "${source}" -o "${WORK_DIR}/${name}.o" COMMAND_ERROR_IS_FATAL ANY)
  file(READ "${WORK_DIR}/${name}.json" trace)
  string(REGEX MATCHALL "\"name\":\"Instantiate(Class|Function)\"" events "${trace}")
  list(LENGTH events count)
  set(${result} ${count} PARENT_SCOPE)
endfunction()

set(over "")
file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/budget.txt" lines REGEX "^[^#]")
foreach(line IN LISTS lines)
  if(NOT line MATCHES "^([^ ]+) ([0-9]+)$")
    message(FATAL_ERROR "not '<header> <count>': ${line}")
  endif()
  set(header "${CMAKE_MATCH_1}")
  set(budget "${CMAKE_MATCH_2}")
  if(header STREQUAL "reference")
    count(boost/units/quantity.hpp count)
    if(NOT count EQUAL budget)
      set(complaint "not comparable: boost/units/quantity.hpp costs ${count}, the budget's ${budget}")
      if(REQUIRED)
        message(FATAL_ERROR "${complaint}")
      endif()
      message(STATUS "${complaint}")
      return()
    endif()
    continue()
  endif()
  count("gpuplan/${header}" count)
  message(STATUS "${header}: ${count} of ${budget}")
  if(count GREATER budget)
    string(APPEND over "  ${header}: ${count} instantiations, budget ${budget}\n")
  endif()
endforeach()
if(over)
  message(FATAL_ERROR "over the budget of compile time:\n${over}")
endif()
