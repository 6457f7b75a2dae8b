#!/bin/sh
# Makes kernels.wasm (or the file that is named) from kernels.c; needs clang, lld and binaryen, and
# only when kernels.c changes.
set -e
cd "$(dirname "$0")"
raw=$(mktemp)
clang --target=wasm32 -msimd128 -O3 -fno-builtin -nostdlib -Wl,--no-entry -Wl,--import-memory \
  -Wl,-z,stack-size=8192 -o "$raw" kernels.c
wasm-opt -O3 --enable-simd --enable-bulk-memory --strip-debug --strip-producers "$raw" -o "${1:-kernels.wasm}"
rm "$raw"
