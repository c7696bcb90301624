# find_package(gpuplan [version] [COMPONENTS <component>...]): the target of a component is gpuplan::<component>.
#   gpuplan   headers that need Boost alone (always there)
#   io        headers that read and write files: with nlohmann/json, and with yaml-cpp and toml++ where they are
#   replay    what replays steps, compiled once
#   cuda      headers that measure a device; the project has CUDA among its languages
#   program   the program gpuplan, as gpuplan::command
set(gpuplan_components gpuplan io replay cuda program)
foreach(component IN LISTS gpuplan_FIND_COMPONENTS)
  if(NOT component IN_LIST gpuplan_components AND gpuplan_FIND_REQUIRED_${component})
    list(JOIN gpuplan_components ", " gpuplan_components)
    set(gpuplan_FOUND FALSE)
    set(gpuplan_NOT_FOUND_MESSAGE "gpuplan has no component '${component}'; it has ${gpuplan_components}")
    return()
  endif()
endforeach()

include(CMakeFindDependencyMacro)
find_dependency(Boost 1.74 CONFIG)
include("${CMAKE_CURRENT_LIST_DIR}/gpuplan-targets.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/gpuplan-program.cmake" OPTIONAL)
include("${CMAKE_CURRENT_LIST_DIR}/gpuplan-validate.cmake")

set(gpuplan_gpuplan_FOUND TRUE)
set(gpuplan_replay_FOUND TRUE)
set(gpuplan_cuda_FOUND TRUE)
set(gpuplan_program_FOUND FALSE)
if(TARGET gpuplan::command)
  set(gpuplan_program_FOUND TRUE)
endif()
if(io IN_LIST gpuplan_FIND_COMPONENTS)
  find_package(nlohmann_json 3.11 QUIET CONFIG)
  set(gpuplan_io_FOUND ${nlohmann_json_FOUND})
  find_package(yaml-cpp QUIET CONFIG)
  if(TARGET yaml-cpp AND NOT TARGET yaml-cpp::yaml-cpp) # as before 0.8
    add_library(yaml-cpp::yaml-cpp INTERFACE IMPORTED)
    set_target_properties(yaml-cpp::yaml-cpp PROPERTIES INTERFACE_LINK_LIBRARIES yaml-cpp)
  endif()
  find_package(tomlplusplus QUIET CONFIG)
endif()

set(gpuplan_why_io "nlohmann/json 3.11 or later is not there (in Debian and Ubuntu nlohmann-json3-dev)")
set(gpuplan_why_program "only the component 'development' of gpuplan was installed")
foreach(component IN LISTS gpuplan_FIND_COMPONENTS)
  if(NOT gpuplan_${component}_FOUND AND gpuplan_FIND_REQUIRED_${component})
    set(gpuplan_FOUND FALSE)
    set(gpuplan_NOT_FOUND_MESSAGE "component '${component}': ${gpuplan_why_${component}}")
  endif()
endforeach()
