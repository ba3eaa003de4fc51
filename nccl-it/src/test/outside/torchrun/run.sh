#!/usr/bin/env bash
# Ranks that PyTorch's torchrun starts; Java needs no Python beside it. Debian's PyTorch, where it has
# to be installed, has 150 MB.
set -euo pipefail
here=$(dirname "$0")
if ! command -v torchrun >/dev/null; then
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || { echo "there is no torchrun in PATH"; exit 77; }
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-torch >/dev/null ||
    { echo "PyTorch cannot be installed"; exit 77; }
fi
cp "$here/../ranks/pom.xml" .
mkdir -p src/main/java
cp -r "$here/../ranks/src/." src/main/java
$MVN package -Dnccl4j.version="$VERSION"
port=$((20000 + RANDOM % 10000))
# Said by rank, since the default of these two options fails in torchrun 1.13 on Python 3.11.
output=(--redirects 0:1 --tee 0:1 --log_dir "$PWD/logs")
NCCL_COMM_ID=127.0.0.1:$((port + 1)) NCCL4J_COMM_SECRET=torchrun timeout 120 \
  torchrun --no_python --nproc_per_node 3 --master_port "$port" "${output[@]}" \
  java -Xmx256m -cp "target/classes:target/dependency/*" org.example.rank.Rank | tee ranks
[ "$(grep -c "of 3 over" ranks)" = 3 ]
echo "torchrun: 3 ranks: all right"
