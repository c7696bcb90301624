# What is written for other build systems where a distribution gives absolute folders (nixpkgs), or some of them, and
# asks for shared libraries.
#   cmake -D PROJECT=<project> -D WORK_DIR=<scratch folder> -D CXX=<compiler> [-D PKG_CONFIG=<program>]
#         -P absolute_folders.cmake
cmake_minimum_required(VERSION 3.24)

# expect(<what> <it is> <it should be>)
function(expect what is wanted)
  if(NOT is STREQUAL wanted)
    message(FATAL_ERROR "${what}: '${is}' is not '${wanted}'")
  endif()
endfunction()

# configure(<folder> <LIBDIR> <INCLUDEDIR>): sets cps.
macro(configure folder libdir includedir)
  file(REMOVE_RECURSE "${folder}")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${PROJECT}" -B "${folder}" -D CMAKE_CXX_COMPILER=${CXX} -D GPUPLAN_BUILD_TESTS=OFF -D
            GPUPLAN_BUILD_EXAMPLES=OFF -D GPUPLAN_BUILD_BENCHMARKS=OFF -D GPUPLAN_INSTALL_CPS=ON -D BUILD_SHARED_LIBS=ON
            -D CMAKE_INSTALL_PREFIX=/store/gpuplan -D CMAKE_INSTALL_LIBDIR=${libdir} -D
            CMAKE_INSTALL_INCLUDEDIR=${includedir}
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  file(READ "${folder}/gpuplan.cps" cps)
  string(JSON location GET "${cps}" components replay location)
  string(JSON include GET "${cps}" components gpuplan includes 0)
  string(JSON cps_path ERROR_VARIABLE error GET "${cps}" cps_path)
  string(JSON prefix ERROR_VARIABLE error GET "${cps}" prefix)
  file(GLOB_RECURSE targets "${folder}/CMakeFiles/Export/*/gpuplan-targets.cmake")
  file(READ "${targets}" exported)
  if(exported MATCHES "_IMPORT_PREFIX}/(/[^\"]*)")
    message(FATAL_ERROR "find_package looks for ${CMAKE_MATCH_1} behind the prefix")
  endif()
  file(READ "${folder}/cmake_install.cmake" installed)
  if(NOT installed MATCHES "/libgpuplan_replay[.]a\"")
    message(FATAL_ERROR "gpuplan_replay is no archive, as its descriptions say")
  endif()
endmacro()

# said_of(<folder> <package> <flag>): sets said.
macro(said_of folder package flag)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -E env "PKG_CONFIG_PATH=${folder}" "${PKG_CONFIG}" ${flag} ${package}
    OUTPUT_VARIABLE said OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(STRIP "${said}" said)
endmacro()

configure("${WORK_DIR}/all" /store/gpuplan/lib /store/gpuplan-dev/include)
expect("CPS's archive" "${location}" "/store/gpuplan/lib/libgpuplan_replay.a")
expect("CPS's headers" "${include}" "/store/gpuplan-dev/include")
expect("CPS's prefix" "${prefix}" "/store/gpuplan")
if(PKG_CONFIG)
  said_of("${WORK_DIR}/all" gpuplan --cflags-only-I)
  expect("pkg-config's headers" "${said}" "-I/store/gpuplan-dev/include")
  said_of("${WORK_DIR}/all" gpuplan-replay --libs-only-L)
  expect("pkg-config's archive" "${said}" "-L/store/gpuplan/lib")
endif()

configure("${WORK_DIR}/headers" lib64 /store/gpuplan-dev/include)
expect("CPS's archive" "${location}" "@prefix@/lib64/libgpuplan_replay.a")
expect("CPS's headers" "${include}" "/store/gpuplan-dev/include")
expect("CPS's path" "${cps_path}" "@prefix@/lib64/cps/gpuplan")
if(PKG_CONFIG)
  said_of("${WORK_DIR}/headers" gpuplan --cflags-only-I)
  expect("pkg-config's headers" "${said}" "-I/store/gpuplan-dev/include")
endif()
