# WebAssembly by the clang of zig (PyPI's ziglang), whose package has the sources of libc++ and of its
# exceptions: Debian's libc++ for wasm32 is compiled without them.
set(CMAKE_SYSTEM_NAME WASI)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
find_program(GPUPLAN_ZIG zig HINTS ENV GPUPLAN_ZIG REQUIRED)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES GPUPLAN_ZIG)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)

set(CMAKE_C_COMPILER ${GPUPLAN_ZIG} cc)
set(CMAKE_CXX_COMPILER ${GPUPLAN_ZIG} c++)
foreach(language IN ITEMS C CXX)
  set(CMAKE_${language}_COMPILER_TARGET wasm32-wasi)
  # Exceptions in the form that WebAssembly 3 has, and not in the one before it.
  set(CMAKE_${language}_FLAGS_INIT
      "-fwasm-exceptions -mexception-handling -mreference-types -mllvm -wasm-use-legacy-eh=false \
-fno-sanitize=all -ffp-contract=off -g0")
  set(CMAKE_${language}_ARCHIVE_CREATE "${GPUPLAN_ZIG} ar qc <TARGET> <OBJECTS>")
  set(CMAKE_${language}_ARCHIVE_FINISH "${GPUPLAN_ZIG} ranlib <TARGET>")
endforeach()
# zig leaves files and exceptions out of libc++, which is compiled here as a whole.
string(APPEND CMAKE_CXX_FLAGS_INIT " -U_LIBCPP_HAS_FILESYSTEM -D_LIBCPP_HAS_FILESYSTEM=1 -D_WASI_EMULATED_SIGNAL -include ${CMAKE_CURRENT_LIST_DIR}/wasi.h")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-nostdlib++ -lwasi-emulated-signal -Wl,-z,stack-size=8388608")

# Nothing compiled for this machine is of use, and its headers are not those of WASI.
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
