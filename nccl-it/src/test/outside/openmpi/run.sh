#!/usr/bin/env bash
# Ranks that Open MPI's mpirun starts.
set -euo pipefail
here=$(dirname "$0")
if ! command -v mpirun >/dev/null; then
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || { echo "Open MPI is not installed"; exit 77; }
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq openmpi-bin >/dev/null ||
    { echo "Open MPI cannot be installed"; exit 77; }
fi
cp "$here/../ranks/pom.xml" .
mkdir -p src/main/java
cp -r "$here/../ranks/src/." src/main/java
$MVN package -Dnccl4j.version="$VERSION"
export NCCL_COMM_ID=127.0.0.1:$((20000 + RANDOM % 10000)) NCCL4J_COMM_SECRET=mpirun
options=(--oversubscribe)
[ "$(id -u)" != 0 ] || options+=(--allow-run-as-root)
program=(java -Xmx256m -cp "target/classes:target/dependency/*" org.example.rank.Rank)
timeout 120 mpirun "${options[@]}" -n 3 -x NCCL_COMM_ID -x NCCL4J_COMM_SECRET "${program[@]}" | tee ranks
[ "$(grep -c "of 3 over" ranks)" = 3 ]
echo "$(mpirun --version | head -n 1): 3 ranks: all right"
