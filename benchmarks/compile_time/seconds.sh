#!/usr/bin/env bash
# Compile time of public headers relative to <boost/units/quantity.hpp>, per compiler: CPU seconds,
# interleaved, median. Fails only above 1.5 times the stated limits, since seconds vary with the load.
#   benchmarks/compile_time/seconds.sh [rounds [compiler...]]
set -euo pipefail
export LC_ALL=C
rounds=${1:-7}
compilers=("${@:2}")
((${#compilers[@]})) || for compiler in g++ clang++-14 clang++-19; do
  ! command -v "$compiler" >/dev/null || compilers+=("$compiler")
done

include_dir=$(cd "$(dirname "$0")/../.." && pwd)/include
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
headers=(boost/units/quantity.hpp gpuplan/units.hpp gpuplan/solver.hpp gpuplan/gpuplan.hpp)
limits=(- - 1.5 2.5) # of the ratio; - where none is stated
for index in "${!headers[@]}"; do
  echo "#include <${headers[index]}>" >"$work/$index.cpp"
done

median() { sort -n "$1" | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'; }

TIMEFORMAT='%U %S'
slow=0
for compiler in "${compilers[@]}"; do
  rm -f "$work"/*.times
  for index in "${!headers[@]}"; do # warms the file cache, and shows what does not compile
    "$compiler" -std=c++20 -I "$include_dir" -c "$work/$index.cpp" -o "$work/object.o"
  done
  for ((round = 0; round < rounds; ++round)); do
    for index in "${!headers[@]}"; do
      { time "$compiler" -std=c++20 -I "$include_dir" -c "$work/$index.cpp" -o "$work/object.o"; } \
        2>&1 | awk '{ print $1 + $2 }' >>"$work/$index.times"
    done
  done
  reference=$(median "$work/0.times")
  for index in "${!headers[@]}"; do
    awk -v compiler="$compiler" -v header="${headers[index]}" -v limit="${limits[index]}" \
      -v seconds="$(median "$work/$index.times")" -v reference="$reference" 'BEGIN {
        ratio = seconds / reference
        printf "%-12s %-28s %6.2f s  x %.2f", compiler, header, seconds, ratio
        if (limit != "-") printf "  limit x %.1f", limit
        too_slow = limit != "-" && ratio > 1.5 * limit
        print too_slow ? "  TOO SLOW" : ""
        exit too_slow }' || slow=1
  done
done
exit $slow
