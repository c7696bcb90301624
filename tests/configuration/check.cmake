# Configures the project where one thing after the other is not there, and looks at what would then be
# built and what is said.
#   cmake -D SOURCE_DIR=<project> -D CXX=<compiler> -D GENERATOR=<generator> -D MAKE_PROGRAM=<program>
#         -D WORK_DIR=<scratch folder> -P check.cmake
cmake_minimum_required(VERSION 3.24)
file(REMOVE_RECURSE "${WORK_DIR}")

# absent(<what> [SAYS <text>] [BUILDS <target>...] [LEAVES_OUT <target>...] [FAILS] OPTIONS <option>...)
function(absent what)
  cmake_parse_arguments(PARSE_ARGV 1 wanted "FAILS" "SAYS" "BUILDS;LEAVES_OUT;OPTIONS")
  set(build "${WORK_DIR}/${what}")
  execute_process(
    COMMAND
      "${CMAKE_COMMAND}" -S "${SOURCE_DIR}" -B "${build}" -G "${GENERATOR}"
      "-DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM}" "-DCMAKE_CXX_COMPILER=${CXX}"
      # What costs time to find out and is the same in every case.
      -DGPUPLAN_MACHINE_CAN_CONTRACT=OFF -DGPUPLAN_MACHINE_HAS_THREAD_SANITIZER=OFF
      -DGPUPLAN_BUILD_BENCHMARKS=OFF ${wanted_OPTIONS}
    RESULT_VARIABLE exit_code
    OUTPUT_VARIABLE said
    ERROR_VARIABLE said)
  string(REGEX REPLACE "[ \n]+" " " said "${said}")
  if(wanted_FAILS)
    if(exit_code EQUAL 0)
      message(FATAL_ERROR "without ${what} it was configured, but must not be: ${said}")
    endif()
  elseif(NOT exit_code EQUAL 0)
    message(FATAL_ERROR "without ${what} it was not configured: ${said}")
  endif()
  string(FIND "${said}" "${wanted_SAYS}" position)
  if(position LESS 0)
    message(FATAL_ERROR "without ${what} it did not say '${wanted_SAYS}' but: ${said}")
  endif()
  set(targets "")
  if(NOT wanted_FAILS)
    execute_process(COMMAND "${CMAKE_COMMAND}" --build "${build}" --target help
                    OUTPUT_VARIABLE targets COMMAND_ERROR_IS_FATAL ANY)
  endif()
  foreach(target IN LISTS wanted_BUILDS)
    if(NOT targets MATCHES "(^|[^a-z_])${target}([^a-z_]|$)")
      message(FATAL_ERROR "without ${what} there is no target ${target}")
    endif()
  endforeach()
  foreach(target IN LISTS wanted_LEAVES_OUT)
    if(targets MATCHES "(^|[^a-z_])${target}([^a-z_]|$)")
      message(FATAL_ERROR "without ${what} there is a target ${target}")
    endif()
  endforeach()
  message(STATUS "without ${what}: as it should be")
endfunction()

# A source that stands for the archive that would be fetched: <name> makes <target> of the installed one.
function(stand_in name target)
  file(
    WRITE "${WORK_DIR}/source_of_${name}/CMakeLists.txt"
    "cmake_minimum_required(VERSION 3.24)\nproject(${name} LANGUAGES NONE)\n"
    "add_library(stand_in_${name} INTERFACE)\nadd_library(${target} ALIAS stand_in_${name})\n")
endfunction()

# MPI as a whole, and the run-time part of it, which has a compiler's wrapper but no headers.
set(without_mpi LEAVES_OUT sweep_mpi gpuplan_sweep_mpi gpuplan_mpi_tests BUILDS sweep_cpu SAYS
                "gpuplan: there is no MPI for C++ here, so sweep_mpi is not built")
absent(MPI ${without_mpi} OPTIONS -DMPI_EXECUTABLE_SUFFIX=.absent -DMPI_ASSUME_NO_BUILTIN_MPI=ON
       -DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON)
file(WRITE "${WORK_DIR}/mpicxx" "#!/bin/sh\necho \"c++ -I${WORK_DIR} -lmpi\"\n")
file(CHMOD "${WORK_DIR}/mpicxx" PERMISSIONS OWNER_READ OWNER_EXECUTE)
absent(headers_of_MPI ${without_mpi} OPTIONS "-DMPI_CXX_COMPILER=${WORK_DIR}/mpicxx"
       -DMPI_ASSUME_NO_BUILTIN_MPI=ON -DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON)

absent(NLopt BUILDS accuracy gpuplan_accuracy_tests LEAVES_OUT fit_time fit_links SAYS
       "gpuplan: there is no NLopt here" OPTIONS -DNLOPT_INCLUDE_DIR=OFF)
absent(Python SAYS "No Python of 3.10 or later" OPTIONS -DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON)
set(ENV{CUDACXX} "${WORK_DIR}/no_such_nvcc")
absent(CUDA BUILDS strategy_tables LEAVES_OUT measure_gpu sweep_cuda)
absent(CUDA_that_is_wanted FAILS SAYS "GPUPLAN_CUDA is ON, and there is no CUDA compiler here" OPTIONS
       -DGPUPLAN_CUDA=ON)

# What is fetched where it is not installed: from its source, or with a word of what to install.
foreach(case IN ITEMS "CLI11 CLI11::CLI11 libcli11-dev" "Eigen3 Eigen3::Eigen libeigen3-dev"
                      "nlohmann_json nlohmann_json::nlohmann_json nlohmann-json3-dev"
                      "yaml-cpp yaml-cpp::yaml-cpp libyaml-cpp-dev"
                      "tomlplusplus tomlplusplus::tomlplusplus libtomlplusplus-dev"
                      "doctest doctest::doctest doctest-dev" "Boost Boost::units libboost-dev")
  separate_arguments(case UNIX_COMMAND "${case}")
  list(GET case 0 name)
  list(GET case 1 target)
  list(GET case 2 package)
  stand_in(${name} ${target})
  string(TOUPPER ${name} upper)
  set(absent_one -DCMAKE_DISABLE_FIND_PACKAGE_${name}=ON)
  absent(${name} BUILDS strategy_tables gpuplan_tests SAYS ${package} OPTIONS ${absent_one}
         "-DFETCHCONTENT_SOURCE_DIR_${upper}=${WORK_DIR}/source_of_${name}")
  absent(${name}_and_network FAILS SAYS ${package} OPTIONS ${absent_one}
         -DFETCHCONTENT_FULLY_DISCONNECTED=ON)
endforeach()
stand_in(benchmark benchmark::benchmark_main)
absent(benchmark BUILDS gpuplan_benchmarks SAYS libbenchmark-dev OPTIONS -DGPUPLAN_BUILD_BENCHMARKS=ON
       -DCMAKE_DISABLE_FIND_PACKAGE_benchmark=ON
       "-DFETCHCONTENT_SOURCE_DIR_BENCHMARK=${WORK_DIR}/source_of_benchmark")
