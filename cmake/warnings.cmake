# What our own programs are compiled with; never what users of the library are.
add_library(gpuplan_warnings INTERFACE)
target_compile_options(
  gpuplan_warnings
  INTERFACE -Wall
            -Wextra
            -Wpedantic
            -Wconversion
            -Wsign-conversion
            -Wshadow
            $<$<BOOL:${GPUPLAN_WARNINGS_AS_ERRORS}>:-Werror>)
