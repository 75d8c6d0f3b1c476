#!/usr/bin/env bash
# What a user of the installed package gets. Each check is a test in CMakeLists.txt; all of them use one installation,
# which `install` makes:
#   check.sh install|paths|libraries|headers|components|version|example [EXAMPLE]
# in a folder of its own, with SOURCE_DIR, BUILD_DIR, LIBDIR and Torch_DIR in the environment.
set -euo pipefail
work=$PWD
prefix=$work/prefix
here=$SOURCE_DIR/tests/install

fail() { echo "$*" >&2; exit 1; }

# configure SOURCE FOLDER [OPTION...]
configure() {
  rm -rf "$2"
  cmake -G Ninja -S "$1" -B "$2" -DCMAKE_BUILD_TYPE=Release -DTorch_DIR="$Torch_DIR" -DCMAKE_PREFIX_PATH="$prefix" \
    "${@:3}"
}

build() {
  if configure "$@" >"$2.log" 2>&1 && cmake --build "$2" >>"$2.log" 2>&1; then return; fi
  cat "$2.log"
  fail "$1 does not build"
}

needed() { objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }'; }

# refuse PATTERN FILE MESSAGE: the file must not need a library that matches
refuse() {
  local found
  found=$(needed "$2" | grep -E "$1") || return 0
  fail "$3: ${2##*/} needs" $found
}

check_install() {
  rm -rf "$prefix"
  cmake --install "$BUILD_DIR" --prefix "$prefix" >install.log
  [[ -z $(find "$prefix" -path '*/internal*') ]] || fail "internal headers are installed"
}

# Neither texts nor libraries nor the program contain a path of the source or the build folder.
check_paths() {
  local found
  found=$(grep -rlF -e "$SOURCE_DIR" -e "$BUILD_DIR" "$prefix") || return 0
  fail "a path of the source or the build folder is in" $found
}

# Operators need LibTorch only; the training library needs no library for downloads, image files or figures.
check_libraries() {
  local others='curl|png|jpeg|cairo'
  refuse "$others|libz\.|fmt|crypto|covnoise|libtorch\.|libtorch_python" "$prefix/$LIBDIR/libcovnoise_ops.so" "operators"
  refuse "$others|covnoise_(datasets|study)" "$prefix/$LIBDIR/libcovnoise.so" "the training library"
  refuse "cairo|covnoise_study" "$prefix/$LIBDIR/libcovnoise_datasets.so" "the data sets"
}

# covnoise.h has all of the training library, no public header includes a library that users would have to install, and
# each compiles on its own, twice. LibTorch's headers take seconds: those that a header includes anyway are precompiled.
check_headers() {
  local header included unit
  cd "$prefix/include"
  if grep -rnE '#include [<"](fmt|nlohmann|toml|CLI|openssl)' .; then fail "public headers include other libraries"; fi
  for header in covnoise/{core,data,distributed,nn,noise,ops,train}/*.h; do
    grep -qF "#include \"$header\"" covnoise/covnoise.h || fail "covnoise/covnoise.h does not include $header"
  done
  rm -rf "$work/headers" && mkdir -p "$work/headers"/{plain,tensor,module}
  for header in $(find covnoise -name '*.h'); do
    included=$(g++ -std=c++17 -M -MG -nostdinc -I. -x c++ "$header" 2>/dev/null)
    unit=plain
    if [[ $included == *" ATen/core/Tensor.h"* ]]; then unit=tensor; fi
    if [[ $included == *" torch/nn/"* ]]; then unit=module; fi
    printf '#include "%s"\n' "$header" "$header" >"$work/headers/$unit/${header//\//_}.cpp"
  done
  build "$here/headers" "$work/headers/build" -DUNITS="$work/headers" -DCMAKE_BUILD_TYPE=
}

# One component brings no other, and an unknown one is refused by name.
check_components() {
  build "$here/operators" "$work/operators"
  [[ $("$work/operators/operators") == "8 normals" ]] || fail "the operators' program does not run"
  refuse 'libcovnoise\.|covnoise_(datasets|study)|libtorch\.' "$work/operators/operators" "a program with covnoise::ops"
  if configure "$here/operators" "$work/unknown" -DCOMPONENT=opps >unknown.log 2>&1; then fail "opps is a component"; fi
  grep -q 'no component opps; there are ops, covnoise, datasets, study' unknown.log || { cat unknown.log; exit 1; }
}

# Another LibTorch is refused at configure time, in one line that names both versions.
check_version() {
  rm -rf other && mkdir -p "other/$LIBDIR/cmake"
  cp -r "$prefix/$LIBDIR/cmake/covnoise" "other/$LIBDIR/cmake/"
  local package=$work/other/$LIBDIR/cmake/covnoise
  local line='built with LibTorch 0\.9\.9, but this project found LibTorch [1-9]'
  sed -i 's/^set(covnoise_TORCH_VERSION .*/set(covnoise_TORCH_VERSION "0.9.9")/' "$package/covnoiseConfig.cmake"
  if configure "$here/operators" refused -Dcovnoise_DIR="$package" >refused.log 2>&1; then
    fail "LibTorch 0.9.9 is accepted"
  fi
  grep -qE "$line" refused.log || { cat refused.log; fail "the refusal does not name both versions in one line"; }
}

# An example builds with find_package(covnoise) and prints what the comment at its top says ("//   " before each line);
# numbers may differ by 4 % (other machines round otherwise).
check_example() {
  local name=$1 source=$SOURCE_DIR/examples/$1
  build "$source" "$work/$name"
  cd "$work/$name"
  rm -rf runs
  "./$name" >printed.txt
  sed -n '/^[^/]/q; s|^//   ||p' "$source/$name.cpp" >expected.txt
  [[ -s expected.txt ]] || fail "$name.cpp does not say what it prints"
  awk -f "$here/same_numbers.awk" expected.txt printed.txt || { diff expected.txt printed.txt; exit 1; }
  refuse 'curl|png|jpeg|cairo' "$name" "an example"
}

"check_$1" "${@:2}"
