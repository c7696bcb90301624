# Checks the code and the output that README.md shows.
#   cmake -D README=<file> -D CXX=<compiler> -D FLAGS_FILE=<file> -D PROGRAM_DIR=<folder>
#         -D WORK_DIR=<scratch folder> -P check.cmake
# Every ```cpp block must compile as a file of its own, without warnings. A comment on the line before a block says more:
#   <!-- program: NAME -->       this block is also linked, to a program that later outputs can run
#   <!-- does not compile -->    this block must not compile
#   <!-- diagnostic -->          each line of this block is part of what the compiler said of the
#                                last block that does not compile
#   <!-- output: COMMAND -->     this block is what the shell command prints in the README's folder;
#                                the programs are on the PATH, and what it writes to $WORK can be
#                                included by later blocks
cmake_minimum_required(VERSION 3.24)

file(REMOVE_RECURSE "${WORK_DIR}")
file(MAKE_DIRECTORY "${WORK_DIR}")
set(ENV{PATH} "${WORK_DIR}:${PROGRAM_DIR}:$ENV{PATH}")
set(ENV{LC_ALL} C)
set(ENV{WORK} "${WORK_DIR}")
cmake_path(GET README PARENT_PATH readme_dir)

set(warnings -Wall -Wextra -Werror)
set(cpp_blocks 0)
set(output_blocks 0)
set(diagnostic "")

# compile(<source> <option>...): sets exit_code and said.
macro(compile source)
  execute_process(
    COMMAND "${CXX}" "@${FLAGS_FILE}" "${source}" ${ARGN}
    RESULT_VARIABLE exit_code
    OUTPUT_VARIABLE said
    ERROR_VARIABLE said)
endmacro()

macro(check_cpp_block)
  math(EXPR cpp_blocks "${cpp_blocks} + 1")
  set(source "${WORK_DIR}/block_at_line_${block_line}.cpp")
  file(WRITE "${source}" "${block}")
  if(note MATCHES "^program: (.+)$")
    compile("${source}" ${warnings} -o "${WORK_DIR}/${CMAKE_MATCH_1}")
  else()
    compile("${source}" ${warnings} -fsyntax-only)
  endif()
  if(note STREQUAL "does not compile")
    if(exit_code EQUAL 0)
      message(FATAL_ERROR "the block at line ${block_line} compiles but must not")
    endif()
    set(diagnostic "${said}")
  elseif(NOT exit_code EQUAL 0)
    message(FATAL_ERROR "the block at line ${block_line} does not compile:\n${said}")
  endif()
endmacro()

macro(check_output_block)
  math(EXPR output_blocks "${output_blocks} + 1")
  execute_process(
    COMMAND sh -c "${command}"
    WORKING_DIRECTORY "${readme_dir}"
    RESULT_VARIABLE exit_code
    OUTPUT_VARIABLE printed
    ERROR_VARIABLE printed)
  string(REGEX REPLACE "[ \t\n]+$" "" printed "${printed}")
  string(REGEX REPLACE "[ \t\n]+$" "" shown "${block}")
  if(NOT "${printed}" STREQUAL "${shown}")
    message(FATAL_ERROR "the block at line ${block_line} is not what '${command}' prints "
                        "(exit code ${exit_code}):\n${printed}")
  endif()
endmacro()

macro(check_diagnostic_block)
  set(rest_of_block "${block}")
  while(rest_of_block MATCHES "^([^\n]*)\n(.*)$")
    set(wanted "${CMAKE_MATCH_1}")
    set(rest_of_block "${CMAKE_MATCH_2}")
    string(FIND "${diagnostic}" "${wanted}" position)
    if(position LESS 0)
      message(FATAL_ERROR "the block at line ${block_line} has a line that the compiler did not say: "
                          "${wanted}\n${diagnostic}")
    endif()
  endwhile()
endmacro()

file(READ "${README}" rest)
set(line_number 0)
set(note "")
set(in_block FALSE)
while(rest MATCHES "^([^\n]*)\n(.*)$")
  set(line "${CMAKE_MATCH_1}")
  set(rest "${CMAKE_MATCH_2}")
  math(EXPR line_number "${line_number} + 1")
  if(in_block AND line STREQUAL "```")
    set(in_block FALSE)
    if(language STREQUAL "cpp")
      check_cpp_block()
    elseif(note MATCHES "^output: (.+)$")
      set(command "${CMAKE_MATCH_1}")
      check_output_block()
    elseif(note STREQUAL "diagnostic")
      check_diagnostic_block()
    elseif(note)
      message(FATAL_ERROR "no meaning for the comment before line ${block_line}: ${note}")
    endif()
    set(note "")
  elseif(in_block)
    string(APPEND block "${line}\n")
  elseif(line MATCHES "^```(.*)$")
    set(language "${CMAKE_MATCH_1}")
    set(in_block TRUE)
    set(block "")
    set(block_line ${line_number})
  elseif(line MATCHES "^<!-- (.+) -->$")
    set(note "${CMAKE_MATCH_1}")
  elseif(NOT line STREQUAL "")
    set(note "")
  endif()
endwhile()
if(in_block)
  message(FATAL_ERROR "the block at line ${block_line} has no end")
endif()
if(cpp_blocks EQUAL 0 OR output_blocks EQUAL 0)
  message(FATAL_ERROR "${cpp_blocks} blocks of C++ and ${output_blocks} of output in ${README}")
endif()
message(STATUS "${cpp_blocks} blocks of C++ and ${output_blocks} of output are right")
