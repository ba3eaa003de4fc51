#!/usr/bin/env bash
# Ranks that PyTorch's torchrun starts; Java needs no Python beside it.
set -euo pipefail
here=$(dirname "$0")
command -v torchrun >/dev/null || { echo "there is no torchrun in PATH"; exit 77; }
cp "$here/../ranks/pom.xml" .
mkdir -p src/main/java
cp -r "$here/../ranks/src/." src/main/java
$MVN package -Dnccl4j.version="$VERSION"
port=$((20000 + RANDOM % 10000))
NCCL_COMM_ID=127.0.0.1:$((port + 1)) NCCL4J_COMM_SECRET=torchrun timeout 120 \
  torchrun --no-python --nproc-per-node 3 --master-port "$port" \
  java -Xmx256m -cp "target/classes:target/dependency/*" org.example.rank.Rank | tee ranks
[ "$(grep -c "of 3 over" ranks)" = 3 ]
echo "torchrun: 3 ranks: all right"
