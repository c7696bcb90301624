# Each dependency: the installed package where there is one, else the release archive, pinned by hash.
# -D FETCHCONTENT_SOURCE_DIR_<NAME>=<folder> takes a local source instead of either.
include(FetchContent)

# The options below are plain variables, whatever old policy version a dependency asks for.
set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)

# Marks what is fetched as a system library; before CMake 3.25 its warnings are shown like ours. Stands
# first: CMake 3.25 takes SYSTEM behind another argument for a value of that one.
set(gpuplan_fetch_as DOWNLOAD_EXTRACT_TIMESTAMP OFF)
if(CMAKE_VERSION VERSION_GREATER_EQUAL 3.25)
  list(PREPEND gpuplan_fetch_as SYSTEM)
endif()

# gpuplan_find_or_fetch(<name> <Debian package> <oldest version> <archive> <hash> [<option of
# FetchContent_Declare>...]). What is missing is named before it is fetched, since that may fail.
macro(gpuplan_find_or_fetch name package oldest archive hash)
  set(gpuplan_wanted ${oldest} CONFIG GLOBAL)
  FetchContent_Declare(
    ${name}
    ${gpuplan_fetch_as}
    URL ${archive}
    URL_HASH SHA256=${hash}
    ${ARGN}
    FIND_PACKAGE_ARGS ${gpuplan_wanted})
  find_package(${name} ${gpuplan_wanted} QUIET)
  if(NOT ${name}_FOUND)
    message(STATUS "gpuplan: ${name} ${oldest} or later is not installed here (in Debian and Ubuntu it is "
                   "${package}), so its source is taken")
  endif()
  FetchContent_MakeAvailable(${name})
endmacro()

# Sets gpuplan_boost to the target that brings Boost.Units. Boost.Units cannot be fetched alone: its
# release archive holds it with the libraries it needs. 1.74 is the oldest version that is tested.
macro(gpuplan_require_boost)
  if(NOT TARGET Boost::headers AND NOT TARGET Boost::units)
    set(BOOST_INCLUDE_LIBRARIES units)
    gpuplan_find_or_fetch(
      Boost libboost-dev 1.74 https://github.com/boostorg/boost/releases/download/boost-1.87.0/boost-1.87.0-cmake.tar.xz
      7da75f171837577a52bbf217e17f8ea576c7c246e4594d617bfde7fafd408be5)
    unset(BOOST_INCLUDE_LIBRARIES)
  endif()
  if(TARGET Boost::units)
    set(gpuplan_boost Boost::units)
  else()
    set(gpuplan_boost Boost::headers)
  endif()
  get_target_property(gpuplan_boost_is_installed ${gpuplan_boost} IMPORTED)
  if(GPUPLAN_INSTALL AND NOT gpuplan_boost_is_installed)
    message(STATUS "gpuplan: Boost is not an installed package here, so gpuplan cannot be "
                   "installed from this build: GPUPLAN_INSTALL is taken as OFF")
    set(GPUPLAN_INSTALL OFF)
  endif()
endmacro()

macro(gpuplan_require_doctest)
  set(DOCTEST_WITH_TESTS OFF)
  set(DOCTEST_NO_INSTALL ON)
  gpuplan_find_or_fetch(
    doctest doctest-dev 2.4
    https://github.com/doctest/doctest/archive/refs/tags/v2.4.12.tar.gz
    73381c7aa4dee704bd935609668cf41880ea7f19fa0504a200e13b74999c2d70)
endmacro()

macro(gpuplan_require_benchmark)
  set(BENCHMARK_ENABLE_TESTING OFF)
  set(BENCHMARK_ENABLE_INSTALL OFF)
  set(BENCHMARK_ENABLE_WERROR OFF)
  gpuplan_find_or_fetch(
    benchmark libbenchmark-dev 1.7
    https://github.com/google/benchmark/archive/refs/tags/v1.8.3.tar.gz
    6bc180a57d23d4d9515519f92b0c83d61b05b5bab188961f36ac7b06b0d9e9ce)
endmacro()

# The command line of the example programs.
macro(gpuplan_require_cli11)
  gpuplan_find_or_fetch(
    CLI11 libcli11-dev 2.1
    https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.4.2.tar.gz
    f2d893a65c3b1324c50d4e682c0cdc021dd0477ae2c048544f39eed6654b699a)
endmacro()

macro(gpuplan_require_json)
  set(JSON_BuildTests OFF)
  set(JSON_Install OFF)
  gpuplan_find_or_fetch(
    nlohmann_json nlohmann-json3-dev 3.11
    https://github.com/nlohmann/json/releases/download/v3.12.0/json.tar.xz
    42f6e95cad6ec532fd372391373363b62a14af6d771056dbfc86160e6dfff7aa)
endmacro()

# Settings of trainers, in YAML. Before 0.8 its package has no namespace for its target.
macro(gpuplan_require_yaml)
  set(YAML_CPP_BUILD_TOOLS OFF)
  set(YAML_CPP_BUILD_TESTS OFF)
  set(YAML_CPP_INSTALL OFF)
  gpuplan_find_or_fetch(
    yaml-cpp libyaml-cpp-dev 0.7
    https://github.com/jbeder/yaml-cpp/archive/refs/tags/0.8.0.tar.gz
    fbe74bbdcee21d656715688706da3c8becfd946d92cd44705cc6098bb23b3a16)
  if(NOT TARGET yaml-cpp::yaml-cpp) # whose name, unlike the other, must be a target's
    add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)
  endif()
endmacro()

# Prices and clusters of one's own, in TOML.
macro(gpuplan_require_toml)
  gpuplan_find_or_fetch(
    tomlplusplus libtomlplusplus-dev 3.3
    https://github.com/marzer/tomlplusplus/archive/refs/tags/v3.4.0.tar.gz
    8517f65938a4faae9ccf8ebb36631a38c1cadfb5efa85d9a72e15b9e97d25155)
endmacro()

# Of what is fetched the headers are all that is needed, so nothing of it is configured.
macro(gpuplan_require_eigen)
  gpuplan_find_or_fetch(
    Eigen3 libeigen3-dev 3.4
    https://gitlab.com/libeigen/eigen/-/archive/3.4.0/eigen-3.4.0.tar.gz
    8586084f71f9bde545ee7fa6d00288b264a2b7ac3607b974e54d13e7162c1c72
    SOURCE_SUBDIR none)
  if(NOT TARGET Eigen3::Eigen)
    add_library(Eigen3::Eigen INTERFACE IMPORTED GLOBAL)
    target_include_directories(Eigen3::Eigen SYSTEM INTERFACE ${eigen3_SOURCE_DIR})
  endif()
endmacro()

# Sets MPI_CXX_FOUND, which alone says whether there is MPI: FindMPI makes its target even where it
# finds nothing. MPI belongs to a machine, so it is never fetched.
macro(gpuplan_look_for_mpi)
  set(MPI_CXX_SKIP_MPICXX ON) # its old C++ interface
  find_package(MPI QUIET COMPONENTS CXX)
  if(NOT MPI_CXX_FOUND)
    message(STATUS "gpuplan: there is no MPI for C++ here, so sweep_mpi is not built")
  endif()
endmacro()

# gpuplan_mpi_test(<name> <ranks> <command>...): a test that runs a command on so many ranks. They may
# be more than the machine has cores.
function(gpuplan_mpi_test name ranks)
  add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${ARGN})
  # What Open MPI is told by its environment, as its name for it: containers often run as root, and
  # rarely let a process read another's memory; a rank that waits leaves its core to others. What MPI keeps until its end is no leak of ours.
  set_tests_properties(
    ${name}
    PROPERTIES
      PROCESSORS
      ${ranks}
      TIMEOUT
      120
      ENVIRONMENT
      "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1;OMPI_MCA_hwloc_base_binding_policy=none;OMPI_MCA_btl_vader_single_copy_mechanism=none;OMPI_MCA_mpi_yield_when_idle=1;ASAN_OPTIONS=detect_leaks=0"
  )
endfunction()
