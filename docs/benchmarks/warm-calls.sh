#!/usr/bin/env bash
# Host time of warm calls on GPUs without the driver's part: a fake driver whose calls of a launch do nothing.
# From the root, after mvn package -DskipTests: docs/benchmarks/warm-calls.sh [JAVA ...]
set -euo pipefail
cd "$(dirname "$0")/../.."
classes=nccl-it/target/test-classes:$(echo nccl-*/target/classes nccl-device/kernels/target/classes | tr ' ' ':'):$(ls nccl-it/target/modules/*.jar | grep -v '/nccl-[^/]*$' | tr '\n' ':')
variant=$(mktemp -d)
trap 'rm -rf "$variant"' EXIT
quick='cuStreamGetCaptureInfo_v2 cuStreamIsCapturing cuLaunchKernelEx cuCtxGetCurrent cuCtxSetCurrent cuMemcpyAsync cuEventRecord'
{
  for name in $quick; do echo "#define $name fake_$name"; done
  echo '#include "fakecuda.c"'
  for name in $quick; do echo "#undef $name"; done
  cat <<'C'
CUresult cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction f, void** p, void** e) { return 0; }
CUresult cuCtxGetCurrent(CUcontext* c) { *c = current; return 0; }
CUresult cuCtxSetCurrent(CUcontext c) { current = c; return 0; }
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s) { return 0; }
CUresult cuEventRecord(CUevent e, CUstream s) { return 0; }
CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus* status) {
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return 0;
}
CUresult cuStreamGetCaptureInfo_v2(CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id,
    CUgraph* graph, const CUgraphNode** nodes, size_t* n) {
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return 0;
}
C
} >"$variant/null.c"
gcc -O2 -w -shared -fPIC -Wl,-soname,libcuda.so.1 -I"${CUDA_INCLUDE:-/usr/local/cuda/include}" \
  -Inccl-device/src/test/c -o "$variant/libcuda.so.1" "$variant/null.c" -lpthread
for java in "${@:-java}"; do
  access=
  [ "$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p')" -lt 24 ] || access=--enable-native-access=ALL-UNNAMED
  for how in "1 own" "1 in-place" "2 own" "2 user" "2 own all_gather" "2 user all_gather" "2 own sendrecv" \
    "2 user sendrecv" "2 own sendrecv threads" "2 own alltoall" "2 own gather" "2 own scatter"; do
    # shellcheck disable=SC2086 # an option or none, and two to four words
    LD_LIBRARY_PATH="$variant" "$java" $access -XX:+UseSerialGC -cp "$classes" org.nccl4j.it.path.WarmCallTimes $how
  done
  # The same through libnccl.so.2.
  home=$("$java" -XshowSettings:properties -version 2>&1 | sed -n 's/ *java.home = //p')
  [ -f "$home/include/jni.h" ] || continue
  nccl-it/src/main/c/build.sh "$variant" "$home"
  gcc -O1 -o "$variant/bursts" nccl-it/src/test/c/abi/bursts.c -L"$variant" -l:libnccl.so.2 -ldl -lpthread
  JAVA_HOME=$home LD_LIBRARY_PATH="$variant" NCCL4J_CLASS_PATH="$classes" "$variant/bursts"
done
