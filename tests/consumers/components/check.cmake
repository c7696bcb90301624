# Checks the components of an installed package that was copied elsewhere.
#   cmake -D PREFIX=<where it is installed> -D SOURCE_DIR=<this folder> -D WORK_DIR=<scratch folder>
#         -D CXX=<compiler> -P check.cmake
cmake_minimum_required(VERSION 3.24)

file(REMOVE_RECURSE "${WORK_DIR}")
set(moved "${WORK_DIR}/moved")
file(COPY "${PREFIX}/" DESTINATION "${moved}")

# configure(<components> <exit code> <what it must say>)
function(configure components expected_code pattern)
  execute_process(
    COMMAND ${CMAKE_COMMAND} --fresh -S "${SOURCE_DIR}" -B "${WORK_DIR}/build" -D CMAKE_CXX_COMPILER=${CXX} -D
            CMAKE_PREFIX_PATH=${moved} -D INSTALLED_IN=${moved} -D "WANTED=${components}"
    RESULT_VARIABLE code
    OUTPUT_VARIABLE said
    ERROR_VARIABLE said)
  string(REGEX REPLACE "[ \n]+" " " said "${said}")
  if(NOT code EQUAL expected_code OR NOT said MATCHES "${pattern}")
    message(FATAL_ERROR "components '${components}' ended with ${code}, or did not say '${pattern}': ${said}")
  endif()
endfunction()

configure("gpuplan;io;replay;cuda" 0 "found gpuplan::gpuplan .*gpuplan::io .*gpuplan::replay .*gpuplan::cuda")
configure("" 0 "")
configure("gpuplan;oven" 1 "gpuplan has no component 'oven'; it has gpuplan, io, replay, cuda, program")
