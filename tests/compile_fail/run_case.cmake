# Compiles one program that must not compile, and checks what the compiler says of it.
#   cmake -D CXX=<compiler> -D FLAGS_FILE=<file> -P run_case.cmake -- <case.cpp>
# A case states in comments of its own line, as CMake regular expressions:
#   // expect-match: <regex>    the diagnostic has this; at least one, all must hold
#   // forbid-match: <regex>    the diagnostic does not have this
#   // max-lines: <count>       the diagnostic is not longer; 20 where it holds a sentence of ours
cmake_minimum_required(VERSION 3.24)

math(EXPR last "${CMAKE_ARGC} - 1")
set(case "${CMAKE_ARGV${last}}")

# LC_ALL: g++ prints typographic quotes in UTF-8 locales.
execute_process(
  COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C "${CXX}" "@${FLAGS_FILE}" -fsyntax-only "${case}"
  RESULT_VARIABLE exit_code
  OUTPUT_VARIABLE said
  ERROR_VARIABLE said)
if(exit_code EQUAL 0)
  message(FATAL_ERROR "compiles but must not: ${case}")
endif()

string(REGEX REPLACE "[^\n]" "" newlines "${said}")
string(LENGTH "${newlines}" line_count)
set(max_lines "")
if(said MATCHES "gpuplan: ")
  set(max_lines 20)
endif()

set(expectations 0)
file(READ "${case}" rest)
while(rest MATCHES "^([^\n]*)\n(.*)$")
  set(line "${CMAKE_MATCH_1}")
  set(rest "${CMAKE_MATCH_2}")
  if(NOT line MATCHES "^// *(expect|forbid|max)")
    continue()
  endif()
  if(line MATCHES "^// expect-match: (.+)$")
    # Kept in a variable of its own: a further MATCHES would change CMAKE_MATCH_1 before it is read.
    set(wanted "${CMAKE_MATCH_1}")
    math(EXPR expectations "${expectations} + 1")
    if(NOT said MATCHES "${wanted}")
      message(FATAL_ERROR "the diagnostic lacks '${wanted}':\n${said}")
    endif()
  elseif(line MATCHES "^// forbid-match: (.+)$")
    set(unwanted "${CMAKE_MATCH_1}")
    if(said MATCHES "${unwanted}")
      message(FATAL_ERROR "the diagnostic has '${unwanted}':\n${said}")
    endif()
  elseif(line MATCHES "^// max-lines: ([0-9]+)$")
    set(max_lines "${CMAKE_MATCH_1}")
  else()
    message(FATAL_ERROR "not a directive in ${case}: ${line}")
  endif()
endwhile()
if(expectations EQUAL 0)
  message(FATAL_ERROR "no // expect-match: line in ${case}")
endif()
if(max_lines AND line_count GREATER max_lines)
  message(FATAL_ERROR "${line_count} lines of diagnostic, limit ${max_lines}:\n${said}")
endif()
