#!/bin/sh
# Makes the kernels where nvcc and make are, and where they are not says so, to the builder and to
# the program: the device then refuses kernels with the reason. Fails instead if REQUIRED is true.
#   build.sh OUT SOURCES ARCHITECTURES PTX [REQUIRED]
# SOURCES is a file for nccl-device, of what the kernels are made from: it takes no kernels of others.
set -e
export LC_ALL=C # the order of files
cd "$(dirname "$0")"
out=$1
architectures=$3
ptx=$4
sources=$(cat ./*.cu ./*.cuh ./*.h | sha256sum | cut -c1-24)
mkdir -p "$out" "$(dirname "$2")"
echo "sources=$sources" >"$2.new"
if cmp -s "$2.new" "$2"; then rm "$2.new"; else mv "$2.new" "$2"; fi
nvcc=${NVCC:-$(command -v nvcc || true)}
if [ -z "$nvcc" ] && [ -x /usr/local/cuda/bin/nvcc ]; then nvcc=/usr/local/cuda/bin/nvcc; fi
absence=
if [ -z "$nvcc" ]; then absence="nvcc was not found when it was built"; fi
# The kernels of NVLS are made for compute capability 10.0 too.
if [ -n "$nvcc" ]; then
  version=$("$nvcc" --version | sed -n 's/.*release \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
  number=$(echo "${version:-0 0}" | { read -r major minor; echo $((major * 100 + minor)); })
  if [ "$number" -lt 1208 ]; then absence="nvcc is older than CUDA 12.8 ($nvcc)"; fi
fi
if ! command -v make >/dev/null; then absence="make was not found when it was built"; fi
if [ -n "$absence" ] && [ "${5:-false}" = true ]; then
  echo "the CUDA kernels cannot be made: $absence" >&2
  echo "  remedy: install the CUDA toolkit, 12.8 or newer, and make, and put nvcc into PATH or NVCC; or build without -Prelease" >&2
  exit 1
fi
if [ -n "$absence" ]; then
  echo "no CUDA kernels: $absence; the CUDA device will say so when it is asked for"
  printf 'sources=%s\nabsence=%s\n' "$sources" "$absence" >"$out/build.properties"
  exit 0
fi
# What has been made is kept, so that neither a clean build nor one of other sources makes it again.
kept=${XDG_CACHE_HOME:-$HOME/.cache}/nccl4j/kernels
make -s -j2 OUT="$out" ARCHITECTURES="$architectures" PTX="$ptx" NVCC="$nvcc" KEPT="$kept"
printf 'sources=%s\narchitectures=%s\nptx=%s\n' "$sources" "$architectures" "$ptx" >"$out/build.properties"
