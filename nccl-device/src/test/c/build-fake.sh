#!/usr/bin/env bash
# Builds the fake driver as FOLDER/libcuda.so.1: build-fake.sh FOLDER
# Status 77, with the reason, where there is no gcc or no cuda.h.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd -P)
command -v gcc >/dev/null || { echo "there is no gcc"; exit 77; }
include=/usr/local/cuda/include
if nvcc=$(command -v nvcc); then
  beside=$(dirname "$(dirname "$(readlink -f "$nvcc")")")/include
  [ ! -e "$beside/cuda.h" ] || include=$beside
fi
[ -e "$include/cuda.h" ] || { echo "there is no cuda.h beside nvcc or in $include"; exit 77; }
mkdir -p "$1"
gcc -shared -fPIC -Wl,-soname,libcuda.so.1 -I"$include" -o "$1/libcuda.so.1" "$here/fakecuda.c"
