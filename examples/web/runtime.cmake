# The C++ standard library with exceptions, of the sources that zig's package has: gpuplan_web_runtime.
execute_process(
  COMMAND ${GPUPLAN_ZIG} env
  WORKING_DIRECTORY / # to which it states its folders
  OUTPUT_VARIABLE zig_env COMMAND_ERROR_IS_FATAL ANY)
if(NOT zig_env MATCHES "lib_dir[\"' ]*[:=] *\"([^\"]+)\"")
  message(FATAL_ERROR "gpuplan: ${GPUPLAN_ZIG} env does not say where its libraries are")
endif()
set(zig_lib ${CMAKE_MATCH_1})
cmake_path(ABSOLUTE_PATH zig_lib BASE_DIRECTORY /)

# What exists for one other system alone, or is not used here: threads, time zones.
file(GLOB runtime_sources ${zig_lib}/libcxx/src/*.cpp ${zig_lib}/libcxx/src/filesystem/*.cpp
     ${zig_lib}/libcxx/src/ryu/*.cpp ${zig_lib}/libcxxabi/src/*.cpp)
list(FILTER runtime_sources EXCLUDE REGEX
     "/(barrier|condition_variable[a-z_]*|future|mutex[a-z_]*|shared_mutex|thread|atomic|random|strstream|int128_builtins|cxa_noexception|cxa_thread_atexit|stdlib_new_delete|print)[.]cpp$")
add_library(gpuplan_web_runtime STATIC ${runtime_sources} ${zig_lib}/libunwind/src/Unwind-wasm.c)
set_target_properties(gpuplan_web_runtime PROPERTIES CXX_STANDARD 23 UNITY_BUILD OFF)
target_include_directories(gpuplan_web_runtime PRIVATE ${zig_lib}/libcxx/src ${zig_lib}/libcxx/libc ${zig_lib}/libcxxabi/src
                                                       ${zig_lib}/libunwind/src ${zig_lib}/libunwind/include)
target_compile_definitions(gpuplan_web_runtime PRIVATE _LIBCPP_BUILDING_LIBRARY LIBCXX_BUILDING_LIBCXXABI
                                                       _LIBCXXABI_BUILDING_LIBRARY _LIBCXXABI_HAS_NO_THREADS _LIBUNWIND_HIDE_SYMBOLS)
target_compile_options(gpuplan_web_runtime PRIVATE -w)
