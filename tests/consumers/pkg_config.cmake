# Compiles consumers with what pkg-config says of an installed package that was copied elsewhere.
#   cmake -D PREFIX=<where it is installed> -D LIBDIR=<its lib folder> -D PKG_CONFIG=<program> -D CXX=<compiler>
#         -D SOURCE_DIR=<this folder> -D WORK_DIR=<scratch folder> -P pkg_config.cmake
cmake_minimum_required(VERSION 3.24)

file(REMOVE_RECURSE "${WORK_DIR}")
set(moved "${WORK_DIR}/moved")
file(COPY "${PREFIX}/" DESTINATION "${moved}")
set(ENV{PKG_CONFIG_PATH} "${moved}/${LIBDIR}/pkgconfig")

# build_and_run(<package> <source>...)
function(build_and_run package)
  execute_process(COMMAND "${PKG_CONFIG}" --cflags --libs ${package} OUTPUT_VARIABLE flags
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  if(NOT flags MATCHES "${moved}")
    message(FATAL_ERROR "${package} is not that of ${moved}: ${flags}")
  endif()
  separate_arguments(flags UNIX_COMMAND "${flags}")
  list(TRANSFORM ARGN PREPEND "${SOURCE_DIR}/" OUTPUT_VARIABLE sources)
  execute_process(COMMAND "${CXX}" -std=c++20 -ffp-contract=off ${sources} ${flags} -o "${WORK_DIR}/${package}"
                          COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${WORK_DIR}/${package}" COMMAND_ERROR_IS_FATAL ANY)
endfunction()

build_and_run(gpuplan plan.cpp second.cpp)
build_and_run(gpuplan-replay find_package_replay/main.cpp find_package_replay/second.cpp)
