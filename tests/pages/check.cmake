# Checks the code and the output that a page of the documentation shows.
#   cmake -D PAGE=<file.md> -D SOURCE_DIR=<project> -D CXX=<compiler> -D FLAGS_FILE=<file>
#         -D PROGRAM_DIR=<folder> -D WORK_DIR=<scratch folder> [-D MUST_SHOW=ON] -P check.cmake
# Every ```cpp block must compile as a file of its own, without warnings. A comment on the line before a
# block says more:
#   <!-- program: NAME -->       this block is also linked, to a program that later commands can run
#   <!-- does not compile -->    this block must not compile
#   <!-- diagnostic -->          each line of this block is part of what the compiler said of the
#                                last block that does not compile
#   <!-- printed by: COMMAND --> this block is what a command prints that need not be seen
# A ```console block holds commands, each behind "$ " (it goes on where a line ends in \), and below
# each what it prints. There a line "…" stands for any lines, or none. Commands run in a scratch folder
# with links to the project's folders; programs are on the PATH, and what a command
# writes can be included by later blocks. MUST_SHOW: a page without code or without output is an error.
cmake_minimum_required(VERSION 3.24)

file(REMOVE_RECURSE "${WORK_DIR}")
file(MAKE_DIRECTORY "${WORK_DIR}")
foreach(folder IN ITEMS benchmarks docs examples include tests)
  if(EXISTS "${SOURCE_DIR}/${folder}")
    file(CREATE_LINK "${SOURCE_DIR}/${folder}" "${WORK_DIR}/${folder}" SYMBOLIC)
  endif()
endforeach()
set(ENV{PATH} "${WORK_DIR}:${PROGRAM_DIR}:$ENV{PATH}")
set(ENV{LC_ALL} C)

set(cpp_blocks 0)
set(outputs 0)
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
  set(warnings -Wall -Wextra -Werror)
  if(note MATCHES "^program: (.+)$")
    compile("${source}" ${warnings} -o "${WORK_DIR}/${CMAKE_MATCH_1}")
  elseif(note STREQUAL "does not compile")
    compile("${source}" -fsyntax-only)
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

# Sets `same` to whether `printed` is what `shown` shows, in which lines may be left out.
function(compare printed shown)
  string(REGEX REPLACE "[ \t\n]+$" "\n" rest "\n${printed}\n")
  string(REGEX REPLACE "[ \t\n]+$" "\n" pieces "\n${shown}\n")
  set(mark "\n…\n")
  set(same FALSE PARENT_SCOPE)
  set(skips FALSE)
  string(FIND "${pieces}" "${mark}" end)
  while(end GREATER_EQUAL 0)
    # A newline belongs to the piece before it and to the one behind it.
    math(EXPR end "${end} + 1")
    string(SUBSTRING "${pieces}" 0 ${end} piece)
    string(LENGTH "${mark}" behind)
    math(EXPR behind "${end} + ${behind} - 2")
    string(SUBSTRING "${pieces}" ${behind} -1 pieces)
    string(FIND "${rest}" "${piece}" position)
    if(position LESS 0 OR (NOT skips AND position GREATER 0))
      return()
    endif()
    math(EXPR position "${position} + ${end} - 1")
    string(SUBSTRING "${rest}" ${position} -1 rest)
    set(skips TRUE)
    string(FIND "${pieces}" "${mark}" end)
  endwhile()
  if(skips)
    string(LENGTH "${rest}" position)
    string(LENGTH "${pieces}" length)
    if(position LESS length)
      return()
    endif()
    math(EXPR position "${position} - ${length}")
    string(SUBSTRING "${rest}" ${position} -1 rest)
  endif()
  if("${rest}" STREQUAL "${pieces}")
    set(same TRUE PARENT_SCOPE)
  endif()
endfunction()

# Of the last command, whether it prints what is shown below it.
macro(check_command)
  math(EXPR outputs "${outputs} + 1")
  execute_process(
    COMMAND sh -c "${command}"
    WORKING_DIRECTORY "${WORK_DIR}"
    RESULT_VARIABLE exit_code
    OUTPUT_VARIABLE printed
    ERROR_VARIABLE printed)
  compare("${printed}" "${shown}")
  if(NOT same)
    message(FATAL_ERROR "the block at line ${block_line} is not what '${command}' prints "
                        "(exit code ${exit_code}):\n${printed}")
  endif()
endmacro()

macro(check_console_block)
  string(REPLACE "\\\n" " " rest_of_block "${block}")
  set(command "")
  while(rest_of_block MATCHES "^([^\n]*)\n(.*)$")
    set(line_of_block "${CMAKE_MATCH_1}")
    set(rest_of_block "${CMAKE_MATCH_2}")
    if(line_of_block MATCHES "^[$] (.+)$")
      set(next "${CMAKE_MATCH_1}")
      if(command)
        check_command()
      endif()
      set(command "${next}")
      set(shown "")
    elseif(command)
      string(APPEND shown "${line_of_block}\n")
    else()
      message(FATAL_ERROR "the block at line ${block_line} does not begin with a command")
    endif()
  endwhile()
  if(command)
    check_command()
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

file(READ "${PAGE}" rest)
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
    elseif(language STREQUAL "console")
      check_console_block()
    elseif(note STREQUAL "diagnostic")
      check_diagnostic_block()
    elseif(note MATCHES "^printed by: (.+)$")
      set(command "${CMAKE_MATCH_1}")
      set(shown "${block}")
      check_command()
    elseif(note AND NOT note MATCHES "^from nothing on ") # which tests/packages/run runs
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
if(MUST_SHOW AND (cpp_blocks EQUAL 0 OR outputs EQUAL 0))
  message(FATAL_ERROR "${cpp_blocks} blocks of C++ and ${outputs} outputs in ${PAGE}")
endif()
message(STATUS "${cpp_blocks} blocks of C++ and ${outputs} outputs are right")
