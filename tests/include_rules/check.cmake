# Checks what the headers include.
#   cmake -D INCLUDE_DIR=<folder that holds gpuplan/> -P check.cmake
cmake_minimum_required(VERSION 3.24)

# A header includes only what stands above it. The headers of a folder share the place of the folder,
# or of the header of its name, without cycles.
set(order
    # foundation
    version.hpp
    detail/errors.inc
    detail/integer.hpp
    detail/math.hpp
    units.hpp
    result.hpp
    range.hpp
    require.hpp
    detail/
    # descriptions
    precision.hpp
    gpu.hpp
    measured_device.hpp
    matmul_surface.hpp
    device_efficiency.hpp
    cluster.hpp
    trainable.hpp
    model.hpp
    optimizer.hpp
    parallelism.hpp
    framework.hpp
    detail/layer_code.hpp
    batch.hpp
    training_setup.hpp
    # catalogue
    catalog/
    # estimators
    operators.hpp
    parameters.hpp
    flops.hpp
    memory_model.hpp
    memory/
    communication.hpp
    time_model.hpp
    time/
    speedup.hpp
    learning_rate.hpp
    training_run.hpp
    cost.hpp
    checkpoint.hpp
    # decisions
    solver.hpp
    planner.hpp
    sweep.hpp
    gpuplan.hpp
    # training steps replayed: opt-in, for the seconds they take to compile
    replay/
    memory/step_peaks.hpp
    memory/transformer.hpp
    memory/profile.hpp
    memory/divisions.hpp
    memory/timeline.hpp
    memory/explanation.hpp
    replay.hpp
    # edges
    measure/
    io/
    cuda/)
list(FIND order gpuplan.hpp umbrella_place)
list(FIND order catalog/ catalog_place)
set(forbidden_above_the_edges "^(iostream|ostream|istream|string|vector|cuda.*|nvml.*)$")

set(complaints "")
macro(complain)
  string(APPEND complaints "  " ${ARGN} "\n")
endmacro()

function(place_of header result)
  list(FIND order "${header}" place)
  if(place LESS 0 AND header MATCHES "^([^/]+)/")
    set(folder "${CMAKE_MATCH_1}")
    list(FIND order "${folder}/" place)
    if(place LESS 0)
      list(FIND order "${folder}.hpp" place)
    endif()
  endif()
  set(${result} ${place} PARENT_SCOPE)
endfunction()

set(root "${INCLUDE_DIR}/gpuplan")
file(GLOB_RECURSE headers RELATIVE "${root}" "${root}/*")
if(NOT headers)
  message(FATAL_ERROR "no headers in ${root}")
endif()

foreach(header IN LISTS headers)
  file(READ "${root}/${header}" code)
  string(REGEX REPLACE "//[^\n]*" "" code "${code}")
  place_of("${header}" place)
  if(place LESS 0)
    complain("${header} has no place in the order of headers")
  endif()
  if(header MATCHES "[.](hpp|cuh)$" AND NOT code MATCHES "#pragma once[ \t]*\n")
    complain("${header} lacks #pragma once")
  endif()
  if(code MATCHES "boost(::|/)" AND NOT header STREQUAL "units.hpp")
    complain("${header} names boost, which only units.hpp may")
  endif()
  string(REGEX MATCHALL "#[ \t]*include[ \t]*[<\"][^>\"\n]+[>\"]" includes "${code}")
  set(uses_${header} "")
  foreach(include IN LISTS includes)
    string(REGEX REPLACE ".*[<\"](.+)[>\"]" "\\1" name "${include}")
    if(include MATCHES "<gpuplan/(.+)>")
      set(used "${CMAKE_MATCH_1}")
      list(APPEND uses_${header} "${used}")
      place_of("${used}" used_place)
      if(used_place GREATER place)
        complain("${header} includes ${used}, which stands below it")
      endif()
      if(used_place EQUAL catalog_place
         AND place GREATER catalog_place
         AND place LESS umbrella_place)
        complain("${header} includes ${used}: it must take values, not the catalogue")
      endif()
    elseif(include MATCHES "\"")
      complain("${header} includes \"${name}\": write <gpuplan/...>")
    elseif(place LESS_EQUAL umbrella_place AND name MATCHES "${forbidden_above_the_edges}")
      complain("${header} includes <${name}>, which only the edges may")
    endif()
  endforeach()
endforeach()

# Take away what includes nothing that is left, until nothing changes: what stays is in a cycle.
set(left ${headers})
set(changed TRUE)
while(changed)
  set(changed FALSE)
  foreach(header IN LISTS left)
    set(waits FALSE)
    foreach(used IN LISTS uses_${header})
      if(used IN_LIST left)
        set(waits TRUE)
      endif()
    endforeach()
    if(NOT waits)
      list(REMOVE_ITEM left "${header}")
      set(changed TRUE)
    endif()
  endforeach()
endwhile()
if(left)
  complain("cycle of includes among: ${left}")
endif()

# The umbrella reaches every public header above it.
set(reached gpuplan.hpp)
set(next gpuplan.hpp)
while(next)
  list(POP_FRONT next header)
  foreach(used IN LISTS uses_${header})
    if(NOT used IN_LIST reached)
      list(APPEND reached "${used}")
      list(APPEND next "${used}")
    endif()
  endforeach()
endwhile()
foreach(header IN LISTS headers)
  place_of("${header}" place)
  if(place LESS umbrella_place AND NOT header IN_LIST reached)
    complain("gpuplan.hpp does not bring ${header}")
  endif()
endforeach()

if(complaints)
  message(FATAL_ERROR "rules of includes are broken:\n${complaints}")
endif()
