#!/usr/bin/env bash
# Builds bench/cuda/kernels_bench for sm_90, with nvcc only, and runs it with the arguments, e.g.
#   bench/cuda/build.sh check && bench/cuda/build.sh time
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${BUILD_DIR:-build-cuda}
nvcc=${NVCC:-nvcc}
mkdir -p "$out"
objects=()
commands=()
for source in $(find src/cuda bench/cuda -name '*.cu' | sort); do
  object=$out/$(echo "$source" | tr / _).o
  objects+=("$object")
  target=-arch=sm_90
  [[ $source != */hopper/* ]] || target=-gencode=arch=compute_90a,code=sm_90a
  if [[ ! $object -nt $source || -n $(find src/cuda bench/cuda -name '*.*h' -newer "$object" 2>/dev/null) ]]; then
    commands+=("$nvcc -std=c++17 -O3 $target --split-compile=0 -Isrc -Iinclude -Ibench/cuda ${NVCC_FLAGS:-} -c $source -o $object")
  fi
done
((${#commands[@]} == 0)) || printf '%s\n' "${commands[@]}" | xargs -P "${JOBS:-$(nproc)}" -I{} bash -c '{}'
"$nvcc" -arch=sm_90 "${objects[@]}" -o "$out/kernels_bench"
(($# == 0)) || exec "$out/kernels_bench" "$@"
