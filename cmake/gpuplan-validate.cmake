# gpuplan_validate(<target> CONFIG <file>... [GPU <name>] [GPUS <n>] [MODEL <name>]): builds the target
# only where the training that these files of a trainer configure fits on the GPU, and nothing in them
# contradicts itself; else the build fails with the sentence of `gpuplan check --must-fit`. Checked
# again when a file changes.
function(gpuplan_validate target)
  cmake_parse_arguments(PARSE_ARGV 1 wanted "" "GPU;GPUS;MODEL" "CONFIG")
  if(wanted_UNPARSED_ARGUMENTS OR NOT wanted_CONFIG)
    message(FATAL_ERROR "gpuplan_validate(<target> CONFIG <file>... [GPU <name>] [GPUS <n>] "
                        "[MODEL <name>]), not: ${ARGN}")
  endif()
  if(NOT TARGET ${target})
    message(FATAL_ERROR "gpuplan_validate: there is no target ${target}")
  endif()
  set(program gpuplan::command)
  if(NOT TARGET gpuplan::command)
    find_program(GPUPLAN_PROGRAM gpuplan DOC "The program gpuplan, which gpuplan_validate runs")
    if(NOT GPUPLAN_PROGRAM)
      message(FATAL_ERROR "gpuplan_validate: the program gpuplan is not installed here; "
                          "-D GPUPLAN_PROGRAM=<file> says where it is")
    endif()
    set(program ${GPUPLAN_PROGRAM})
  endif()
  set(files "")
  foreach(file IN LISTS wanted_CONFIG)
    cmake_path(ABSOLUTE_PATH file)
    list(APPEND files "${file}")
  endforeach()
  set(options "")
  foreach(option IN ITEMS GPU GPUS MODEL)
    if(DEFINED wanted_${option})
      string(TOLOWER ${option} name)
      list(APPEND options --${name} ${wanted_${option}})
    endif()
  endforeach()
  string(SHA256 which "${files};${options}")
  string(SUBSTRING ${which} 0 16 which)
  set(stamp ${CMAKE_CURRENT_BINARY_DIR}/${target}_${which}.validated.txt)
  add_custom_command(
    OUTPUT ${stamp}
    COMMAND ${program} check ${files} ${options} --must-fit > ${stamp}.draft
    COMMAND ${CMAKE_COMMAND} -E rename ${stamp}.draft ${stamp}
    DEPENDS ${files} ${program}
    COMMENT "Checking the training that ${wanted_CONFIG} configures"
    VERBATIM)
  add_custom_target(${target}_${which}_validated DEPENDS ${stamp})
  add_dependencies(${target} ${target}_${which}_validated)
endfunction()
