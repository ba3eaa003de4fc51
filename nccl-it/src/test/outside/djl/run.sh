#!/usr/bin/env bash
# DJL's PyTorch engine on the CPU: tensors' memory without a copy, and a training in two processes.
# Downloads 110 MB.
set -euo pipefail
here=$(dirname "$0")
[ "$(uname -m)" = x86_64 ] || { echo "the native libraries are for x86-64"; exit 77; }
cp "$here/pom.xml" .
mkdir -p src/main/java
cp "$here"/*.java src/main/java
$MVN package -Dnccl4j.version="$VERSION"
for program in Tensors Training; do
  # The native libraries are in jars; DJL need not ask the network for any.
  DJL_CACHE_DIR=$WORK/cache timeout 300 java -Dai.djl.offline=true -cp "target/classes:target/dependency/*" $program
done
