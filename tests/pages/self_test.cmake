# check.cmake must accept a page that tells the truth and reject each kind that does not, with its
# reason.
#   cmake -D CXX=<compiler> -D FLAGS_FILE=<file> -D WORK_DIR=<scratch folder> -P self_test.cmake
cmake_minimum_required(VERSION 3.24)

set(good_code "```cpp\nint f(int (&a)[2]) { return a[0]; }\n```\n")
set(good_output "```console\n$ printf 'a; [b\\n'\na; [b\n```\n")
set(good_failure "<!-- does not compile -->\n```cpp\nstatic_assert(false, \"a reason\");\n```\n")

function(check complaint page)
  file(WRITE "${WORK_DIR}/page.md" "${page}")
  execute_process(
    COMMAND
      ${CMAKE_COMMAND} -D PAGE=${WORK_DIR}/page.md -D MUST_SHOW=ON -D SOURCE_DIR=${WORK_DIR} -D CXX=${CXX} -D FLAGS_FILE=${FLAGS_FILE} -D
      PROGRAM_DIR=${WORK_DIR} -D WORK_DIR=${WORK_DIR}/blocks -P ${CMAKE_CURRENT_LIST_DIR}/check.cmake
    RESULT_VARIABLE exit_code
    OUTPUT_QUIET
    ERROR_VARIABLE said)
  if(NOT complaint AND NOT exit_code EQUAL 0)
    message(FATAL_ERROR "a good page is rejected:\n${page}\n${said}")
  elseif(complaint AND (exit_code EQUAL 0 OR NOT said MATCHES "${complaint}"))
    message(FATAL_ERROR "this page does not give '${complaint}':\n${page}\n${said}")
  endif()
endfunction()

function(check_good page)
  check("" "${page}${good_code}${good_output}")
endfunction()
function(check_bad complaint page)
  check("${complaint}" "${page}${good_code}${good_output}")
endfunction()

check_good("")
check_good("${good_failure}<!-- diagnostic -->\n```text\na reason\n```\n")
check_good("<!-- program: two -->\n```cpp\n#include <cstdio>\nint main() { std::printf(\"2\\n\"); }\n```\n\
```console\n$ two\n2\n```\n")
check_good("```console\n$ echo 'int three();' >three.hpp\n$ echo 3\n3\n```\n\
```cpp\n#include \"three.hpp\"\nint f() { return three(); }\n```\n")
check_bad("does not compile" "```cpp\nint f( {\n```\n")
check_bad("does not compile" "```cpp\nint f() { int unread = 1; return 2; }\n```\n")
check_bad("does not compile" "<!-- program: two -->\n```cpp\nint f();\n```\n")
check_bad("compiles but must not" "<!-- does not compile -->\n```cpp\nint f();\n```\n")
check_bad("compiler did not say" "${good_failure}<!-- diagnostic -->\n```text\nanother\n```\n")
foreach(shown IN ITEMS "1\n2\n3\n4" "…" "1\n…" "…\n4" "1\n…\n4" "…\n2\n…" "1\n2\n…\n3\n4" "…\n1\n…\n3\n…")
  check_good("```console\n$ seq 4\n${shown}\n```\n")
endforeach()
foreach(shown IN ITEMS "1\n2\n3" "2\n…" "…\n3" "1\n…\n1\n…" "…\n3\n…\n2\n…" "…\n2\n…\n2\n…" "1\n…\n")
  check_bad("is not what 'seq 4; echo' prints" "```console\n$ seq 4; echo\n${shown}\n0\n```\n")
endforeach()
check_good("```console\n$ echo 1 \\\n    2\n1 2\n$ echo 3\n3\n```\n")
check_bad("is not what 'echo 1' prints" "```console\n$ echo 1\n2\n$ echo 3\n3\n```\n")
check_bad("is not what 'no_such_program' prints" "```console\n$ no_such_program\n2\n```\n")
check_good("<!-- printed by: echo 1 -->\n```mermaid\n1\n```\n")
check_bad("is not what 'echo 1' prints" "<!-- printed by: echo 1 -->\n```mermaid\n2\n```\n")
check_bad("does not begin with a command" "```console\n1\n```\n")
check_bad("no meaning" "<!-- progam: one -->\n```text\n1\n```\n")
check("has no end" "${good_code}${good_output}```cpp\n")
check("0 blocks of C" "${good_output}")
check("and 0 outputs" "${good_code}")
