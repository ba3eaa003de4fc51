#!/usr/bin/env bash
# How long the first communicator of a process takes, on the tests' fake GPUs and on the host device, each in processes
# of its own. From the root, after mvn package: docs/benchmarks/first-communicator.sh cuda|host RANKS PROCESSES [JAVA_OPTIONS]
# -Dpause=600 waits that many ms before, as long as GPUs take to start; WAY=sockets has ranks meet by sockets.
set -euo pipefail
cd "$(dirname "$0")/../.."
kind=$1 ranks=$2 processes=$3
shift 3
classes=$(echo nccl-{topo,device,device/kernels,api,transport-p2p,transport-net,transport-nvls}/target/classes | tr ' ' ':'):$(ls nccl-it/target/modules/*.jar | grep -v '/nccl-[^/]*$' | tr '\n' ':')
fake=$(mktemp -d)
trap 'rm -rf "$fake"' EXIT
cuda=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
test -f "$cuda/include/cuda.h" || cuda=/usr/local/cuda
cp -r nccl-device/src/test/c/fakecuda.c nccl-device/src/test/c/fakecuda "$fake"
gcc -O1 -shared -fPIC -I"$cuda/include" -Wl,-soname,libcuda.so.1 -o "$fake/libcuda.so.1" "$fake/fakecuda.c"
# The management library knows the same GPUs.
buses=$(for ((bus = 10; bus < 10 + ranks; bus++)); do printf '"0000:%02X:00.0", ' "$bus"; done)
sed -e "s/ OF_TWO\[\] = {.*}/ OF_TWO[] = {$buses}/" -e "s/two() ? 2 : 3/two() ? $ranks : 3/" \
  -e "s/index < 3/index < $ranks/" -e "s/devices\[3\]/devices[$ranks]/" \
  nccl-device/src/test/c/fakenvml.c > "$fake/fakenvml.c"
test "$(grep -c -e "OF_TWO\[\] = {$buses}" -e "two() ? $ranks : 3" -e "index < $ranks" -e "devices\[$ranks\]" \
  "$fake/fakenvml.c")" = 4
gcc -O1 -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -o "$fake/libnvidia-ml.so.1" "$fake/fakenvml.c"
export NCCL4J_FAKE_NVML=two FAKECUDA_DEVICES=$ranks
javac -nowarn -proc:none -d "$fake" -cp "$classes" docs/benchmarks/FirstCommunicator.java
for _ in $(seq "$processes"); do
  LD_LIBRARY_PATH=$fake java -XX:+UseSerialGC -XX:-UsePerfData "$@" -cp "$fake:$classes" FirstCommunicator "$kind" "$ranks" ${WAY:-}
done | sort -n | awk '{ first[NR] = $1; later[NR] = $2; cpu[NR] = $3 } END {
  middle = int((NR + 1) / 2); printf "first %.0f ms (%.0f to %.0f), %.0f ms of processors\n", first[middle], first[1], first[NR], cpu[middle] }'
