# The order of the headers, ring by ring: `order`, and the names of the rings in `rings`. A header
# includes only what stands above it. The headers of a folder share the place of the folder, or of the
# header of its name, without cycles. Also sets `root`, and `headers`, the files in it.
set(rings foundation descriptions catalogue estimators decisions replay edges)
set(foundation
    version.hpp
    detail/errors.inc
    detail/facts.inc
    detail/integer.hpp
    detail/math.hpp
    units.hpp
    result.hpp
    known.hpp
    range.hpp
    require.hpp
    detail/)
set(descriptions
    precision.hpp
    gpu.hpp
    measured_device.hpp
    matmul_surface.hpp
    device_efficiency.hpp
    cluster.hpp
    reliability.hpp
    trainable.hpp
    sequence_mixers.hpp
    transformer.hpp
    model.hpp
    optimizer.hpp
    parallelism.hpp
    implementation.hpp
    layer_classes.hpp
    framework.hpp
    batch.hpp
    training_setup.hpp)
set(catalogue
    catalog/)
set(estimators
    operators.hpp
    parameters.hpp
    flops.hpp
    memory_model.hpp
    device_needs.hpp
    communication.hpp
    time_model.hpp
    time/
    speedup.hpp
    learning_rate.hpp
    training_run.hpp
    cost.hpp
    checkpoint.hpp
    goodput.hpp
    energy.hpp
    job_chain.hpp
    run_phases.hpp
    token_budget.hpp)
set(decisions
    solver.hpp
    planner.hpp
    sweep.hpp
    gpuplan.hpp)
# Training steps replayed: opt-in, for the seconds they take to compile.
set(replay
    replay/
    memory/
    replay.hpp)
set(edges
    measure/
    io/
    cuda/)
set(order "")
foreach(ring IN LISTS rings)
  list(APPEND order ${${ring}})
endforeach()

# place_of(<header> <variable>): its place in the order, below 0 where it has none.
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

# includes_of(<code> <variable>): its lines of #include, without what is in comments.
function(includes_of code result)
  string(REGEX REPLACE "//[^\n]*" "" code "${code}")
  string(REGEX MATCHALL "#[ \t]*include[ \t]*[<\"][^>\"\n]+[>\"]" includes "${code}")
  set(${result} "${includes}" PARENT_SCOPE)
endfunction()

set(root "${INCLUDE_DIR}/gpuplan")
file(GLOB_RECURSE headers RELATIVE "${root}" "${root}/*")
if(NOT headers)
  message(FATAL_ERROR "no headers in ${root}")
endif()
