#!/usr/bin/env bash
# Ranks that Slurm starts: a cluster of one node, with its own munge, in the working directory.
set -euo pipefail
here=$(dirname "$0")
cannot() {
  echo "$1"
  exit 77
}
[ "$(id -u)" = 0 ] || cannot "only root can start Slurm's daemons here"
if ! command -v slurmctld >/dev/null || ! command -v slurmd >/dev/null || ! command -v munged >/dev/null; then
  command -v apt-get >/dev/null || cannot "Slurm is not installed"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq slurmctld slurmd slurm-client munge >/dev/null ||
    cannot "Slurm cannot be installed"
fi

cp "$here/../ranks/pom.xml" .
mkdir -p src/main/java
cp -r "$here/../ranks/src/." src/main/java
$MVN package -Dnccl4j.version="$VERSION"

# munged asks for folders that only their owner writes, all the way up.
cluster=$(mktemp -d /run/nccl4j-slurm.XXXXXX)
chmod 755 "$cluster"
daemons=()
stop() {
  kill "${daemons[@]}" 2>/dev/null || true
  [ ! -f "$cluster/munged.pid" ] || kill "$(cat "$cluster/munged.pid")" 2>/dev/null || true
  wait
  rm -rf "$cluster"
}
trap stop EXIT
mkdir "$cluster/state" "$cluster/spool"
head -c 64 /dev/urandom >"$cluster/munge.key"
chmod 600 "$cluster/munge.key"
munged --socket="$cluster/munge.socket" --key-file="$cluster/munge.key" --seed-file="$cluster/seed" \
  --pid-file="$cluster/munged.pid" --log-file="$cluster/munged.log" --force
host=$(hostname -s)
port=$((20000 + RANDOM % 10000))
export SLURM_CONF=$cluster/slurm.conf
cat >"$SLURM_CONF" <<C
ClusterName=nccl4j
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
AuthType=auth/munge
AuthInfo=socket=$cluster/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$cluster/state
SlurmdSpoolDir=$cluster/spool
SlurmctldPidFile=$cluster/slurmctld.pid
SlurmdPidFile=$cluster/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
C
slurmctld -f "$SLURM_CONF" -D >"$cluster/slurmctld.log" 2>&1 &
daemons+=($!)
slurmd -f "$SLURM_CONF" -D >"$cluster/slurmd.log" 2>&1 &
daemons+=($!)
for _ in $(seq 200); do
  state=$(sinfo -h -o %T 2>/dev/null || true)
  [ "$state" = idle ] && break
  sleep 0.1
done
[ "$state" = idle ] || {
  tail -n 20 "$cluster"/*.log
  exit 1
}

export NCCL_COMM_ID=127.0.0.1:$((port + 2)) NCCL4J_COMM_SECRET=slurm
program=(java -Xmx256m -cp "target/classes:target/dependency/*" org.example.rank.Rank)
timeout 120 srun -n 3 --overcommit "${program[@]}" | tee ranks
[ "$(grep -c "of 3 over" ranks)" = 3 ]

# A rank that fails ends the job: srun kills the other ranks, which wait for it.
if timeout 120 srun -n 3 --overcommit --kill-on-bad-exit=1 sh -c \
  '[ "$SLURM_PROCID" = 1 ] && exit 3; exec "$@"' sh "${program[@]}" >failed 2>&1; then
  echo "srun says that all is well"
  exit 1
fi
echo "$(slurmctld -V): 3 ranks of srun: all right; a rank that fails ends the job"
