# What our own programs are compiled with; never what users of the library are.
add_library(gpuplan_warnings INTERFACE)
if(NOT GPUPLAN_WARNINGS)
  return()
endif()
set(gpuplan_host_warnings -Wall -Wextra -Wconversion -Wsign-conversion)
if(NOT CMAKE_UNITY_BUILD) # where one file's local variable would shadow another file's constant
  list(APPEND gpuplan_host_warnings -Wshadow)
endif()
set(gpuplan_cxx_warnings
    ${gpuplan_host_warnings}
    -Wpedantic
    # g++ 12 and 13 warn of std::string's own operator+ when they optimise (GCC bug 105651).
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
list(JOIN gpuplan_host_warnings "," gpuplan_cuda_warnings)
set(gpuplan_cuda_warnings -Xcompiler=${gpuplan_cuda_warnings})
if(GPUPLAN_WARNINGS_AS_ERRORS)
  list(APPEND gpuplan_cxx_warnings -Werror)
  list(APPEND gpuplan_cuda_warnings -Werror=all-warnings -Xcompiler=-Werror)
endif()
target_compile_options(
  gpuplan_warnings INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${gpuplan_cxx_warnings}>"
                             "$<$<COMPILE_LANGUAGE:CUDA>:${gpuplan_cuda_warnings}>")
