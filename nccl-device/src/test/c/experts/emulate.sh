#!/bin/sh
# Compiles the kernels for experts for the CPU, a fiber for each CUDA thread, and compares with an oracle.
#   emulate.sh OUT
set -e
cd "$(dirname "$0")"
src=../../../main/cuda
mkdir -p "$1/inc"
cp inc/* $src/expert_layout.h $src/layout.h $src/wait.cuh $src/expert_combine.cuh "$1/inc"
python3 - $src "$1/inc" <<'PY'
import re, sys
src, out = sys.argv[1:]
s = open(src + '/expert.cuh').read()
s = re.sub(r'asm volatile\("st.release.sys.*?\);', 'emu::yield(); *(volatile u64*)p = v;', s)
s = re.sub(r'asm volatile\("ld.global.L1::no_allocate.*?\);', 'v = *(const Pack*)p;', s)
s = re.sub(r'asm volatile\("st.global.v2.*?\);', '*(Pack*)p = v;', s)
assert 'asm' not in s
open(out + '/expert.cuh', 'w').write(s)
s = open(src + '/expert_dispatch.cuh').read()
shared = '__shared__ DispatchShared s;'
assert shared in s
open(out + '/expert_dispatch.cuh', 'w').write(s.replace(shared, 'DispatchShared& s = *(DispatchShared*)emu::shared();'))
PY
g++ -std=c++17 -O1 -g -fno-strict-aliasing -ffp-contract=off -I"$1/inc" -I/usr/local/cuda/include emu.cc -o "$1/emulate"
"$1/emulate"
