# Checks the release script in a repository of its own: what it sets, tags, archives and refuses.
#   cmake -D SOURCE_DIR=<project> -D WORK_DIR=<scratch folder> -P check.cmake
cmake_minimum_required(VERSION 3.24)

file(REMOVE_RECURSE "${WORK_DIR}")
set(tree "${WORK_DIR}/tree")
foreach(file IN ITEMS CITATION.cff CHANGELOG.md CMakeLists.txt LICENSE cmake/packages/bazel/MODULE.bazel
                      cmake/packages/meson/gpuplan.wrap cmake/packages/vcpkg/gpuplan/vcpkg.json
                      cmake/release/release cmake/single_header/make.py)
  configure_file("${SOURCE_DIR}/${file}" "${tree}/${file}" COPYONLY)
endforeach()
file(COPY "${SOURCE_DIR}/include" DESTINATION "${tree}")
foreach(name IN ITEMS AUTHOR COMMITTER)
  set(ENV{GIT_${name}_NAME} "a tester")
  set(ENV{GIT_${name}_EMAIL} tester@example.org)
endforeach()

# run(<exit code> <what it must say> <command>...)
function(run expected_code pattern)
  execute_process(
    COMMAND ${ARGN}
    WORKING_DIRECTORY "${tree}"
    RESULT_VARIABLE code
    OUTPUT_VARIABLE said
    ERROR_VARIABLE said)
  if(NOT code EQUAL expected_code OR NOT said MATCHES "${pattern}")
    message(FATAL_ERROR "${ARGN}\nended with ${code}, not ${expected_code}, or did not say '${pattern}':\n${said}")
  endif()
endfunction()

function(expect_in file pattern)
  file(READ "${file}" text)
  if(NOT text MATCHES "${pattern}")
    message(FATAL_ERROR "${file} does not hold '${pattern}'")
  endif()
endfunction()

file(WRITE "${tree}/docs/install.md" "find_package(gpuplan 0.1 REQUIRED)\n")
run(0 "" git init --quiet)
run(0 "" git add .)
run(0 "" git commit --quiet --message "What is there")

run(2 "Makes a release" cmake/release/release)
run(1 "version '7\\.5': three numbers are taken" cmake/release/release 7.5)
file(WRITE "${tree}/stray" "")
run(1 "has changes" cmake/release/release 7.5.3)
file(REMOVE "${tree}/stray")

run(0 "tagged v7\\.5\\.3" cmake/release/release 7.5.3 "${WORK_DIR}/archives")
expect_in("${tree}/include/gpuplan/version.hpp" "MAJOR 7\n#define GPUPLAN_VERSION_MINOR 5\n#define GPUPLAN_VERSION_PATCH 3\n")
expect_in("${tree}/docs/install.md" "^find_package\\(gpuplan 7\\.5 REQUIRED\\)\n$")
expect_in("${tree}/CITATION.cff" "\nversion: 7\\.5\\.3\n")
expect_in("${tree}/CITATION.cff" "\ndate-released: 20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]\n")
expect_in("${tree}/cmake/packages/bazel/MODULE.bazel" "version = \"7\\.5\\.3\", compat")
expect_in("${tree}/cmake/packages/meson/gpuplan.wrap" "\ndirectory = gpuplan-7\\.5\\.3\n.*source_filename = gpuplan-7\\.5\\.3\\.tar")
expect_in("${tree}/cmake/packages/vcpkg/gpuplan/vcpkg.json" "\"version\": \"7\\.5\\.3\"")
expect_in("${WORK_DIR}/archives/gpuplan_solver.hpp" "^// gpuplan 7\\.5\\.3 in one file")
expect_in("${tree}/CHANGELOG.md" "\n## \\[Unreleased\\]\n\n## \\[7\\.5\\.3\\] - 20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]\n")
run(0 "^v7\\.5\\.3\n$" git describe)
run(0 "^$" git status --porcelain)

# The archives hold the tagged tree, and the sums are theirs.
execute_process(COMMAND sha256sum --check --quiet SHA256SUMS WORKING_DIRECTORY "${WORK_DIR}/archives"
                COMMAND_ERROR_IS_FATAL ANY)
foreach(kind IN ITEMS tar.gz zip)
  file(ARCHIVE_EXTRACT INPUT "${WORK_DIR}/archives/gpuplan-7.5.3.${kind}" DESTINATION "${WORK_DIR}/${kind}")
  expect_in("${WORK_DIR}/${kind}/gpuplan-7.5.3/include/gpuplan/version.hpp" "MAJOR 7\n")
endforeach()

run(1 "a tag v7\\.5\\.3 already" cmake/release/release 7.5.3)
run(1 "nothing under \\[Unreleased\\]" cmake/release/release 7.6.0)
file(READ "${tree}/CHANGELOG.md" changes)
string(REPLACE "## [Unreleased]\n" "## [Unreleased]\n\n- One more change.\n" changes "${changes}")
file(WRITE "${tree}/CHANGELOG.md" "${changes}")
run(0 "" git commit --quiet --all --message "One more change")
run(1 "version 7\\.4\\.0 is older than the tag v7\\.5\\.3" cmake/release/release 7.4.0)
run(0 "tagged v7\\.5\\.4" cmake/release/release 7.5.4 "${WORK_DIR}/archives")
