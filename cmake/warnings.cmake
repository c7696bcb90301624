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
            # g++ 12 and 13 warn of std::string's own operator+ when they optimise (GCC bug 105651).
            $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
            $<$<BOOL:${GPUPLAN_WARNINGS_AS_ERRORS}>:-Werror>)
