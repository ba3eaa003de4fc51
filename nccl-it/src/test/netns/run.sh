#!/bin/sh
# Ranks on several hosts, each a network namespace of this machine.
#
#   run.sh           correctness on 2, 3 and 5 hosts, with the rate cut too; a killed rank, and a
#                    link taken down, in the middle of a large all-reduce
#
# Skips with a reason where there are no namespaces. Needs what mvn verify has built.
set -u
cd "$(dirname "$0")"
. ./lib.sh
nccl=../../../../nccl
target=../../../target
failures=0

fail() {
  printf 'FAILED: %s\n' "$1"
  failures=$((failures + 1))
}

# check HOSTS RANKS COLLECTIVE OPTIONS...: right results, on so many hosts.
check() {
  hosts=$1 ranks=$2 collective=$3
  shift 3
  log=$(mktemp)
  if in_host 0 timeout 100 "$nccl" perf "$collective" --processes "$ranks" --hosts "$(host_list)" \
    --launcher "$LAUNCHER" --jit-warmup 0 -n 2 -w 0 --bind-to none "$@" > "$log" 2>&1; then
    printf 'ok: %s, %d ranks on %d hosts %s\n' "$collective" "$ranks" "$hosts" "$*"
  else
    fail "$collective, $ranks ranks on $hosts hosts $*"
    tail -n 20 "$log"
  fi
  rm -f "$log"
}

slow_down() {
  for host in $HOSTS; do
    ip netns exec "$host" tc qdisc add dev eth0 root tbf rate 100mbit burst 64kb latency 50ms
  done
}

correctness() {
  for n in 2 3 5; do
    hosts_up $n
    check $n $n all -b 4 -e 300K -f 17
    case $n in
      2)
        check 2 4 all -b 4 -e 300K -f 17
        check 2 2 all_reduce -d all -b 1K -e 1K
        check 2 2 reduce_scatter -d bfloat16 -o prod -b 40K -e 40K
        if command -v tc >/dev/null 2>&1; then
          slow_down
          check 2 2 all_reduce -b 1M -e 1M
          check 2 4 sendrecv -b 300K -e 300K
        else
          echo "SKIPPED: a cut rate (there is no tc)"
        fi
        ;;
      3)
        check 3 5 all_reduce --algo tree -b 4 -e 3M -f 30
        check 3 5 all_reduce --algo ring -b 4 -e 3M -f 30
        NCCL_SOCKET_NTHREADS=2 NCCL_NSOCKS_PERTHREAD=2 check 3 3 all_reduce -b 3M -e 3M
        NCCL_SOCKET_FAMILY=AF_INET6 NCCL_SOCKET_IFNAME==eth0 check 3 3 all_gather -b 1M -e 1M
        ;;
    esac
    hosts_down
  done
}

# start_ranks N SECONDS: an endless all-reduce, each rank's output in $work/RANK.
start_ranks() {
  path=$target/classes:$target/test-classes
  for jar in "$target"/modules/*.jar; do path=$path:$jar; done
  rank=0
  while [ $rank -lt "$1" ]; do
    in_host $rank env NCCL4J_RANK=$rank NCCL4J_NRANKS="$1" NCCL4J_HEARTBEAT_TIMEOUT="$2" \
      NCCL_COMM_ID=10.99.0.1:29555 NCCL4J_COMM_SECRET=netns \
      java -Xmx256m -cp "$path" org.nccl4j.it.netns.Endurance > "$work/$rank" 2>&1 &
    eval "pid$rank=$!"
    rank=$((rank + 1))
  done
  left=200
  while [ "$(cat "$work"/* | grep -c READY)" -lt "$1" ] && [ $left -gt 0 ]; do
    sleep 0.1
    left=$((left - 1))
  done
}

# told RANK WORD WHAT SECONDS: the rank ends within so many seconds, names WORD, leaves nothing.
told() {
  eval "pid=\$pid$1"
  waited=0
  while kill -0 "$pid" 2>/dev/null && [ $waited -lt $(($4 * 10)) ]; do
    sleep 0.1
    waited=$((waited + 1))
  done
  if kill -0 "$pid" 2>/dev/null; then
    fail "$3: rank $1 still runs after $4 s"
  elif ! grep -q "FAILED.*$2" "$work/$1"; then
    fail "$3: rank $1 does not name $2"
  elif ! grep -q 'LEFT \[\]' "$work/$1"; then
    fail "$3: rank $1 left something"
  else
    printf 'ok: %s, rank %d says: %s\n' "$3" "$1" "$(grep FAILED "$work/$1" | cut -c8-160)"
    return
  fi
  cat "$work/$1"
}

faults() {
  hosts_up 3
  work=$(mktemp -d)
  start_ranks 3 30s
  victim=$(ip netns pids "$PREFIX-1")
  kill -9 $victim
  told 0 "rank 1" "rank 1 killed" 30
  told 2 "rank 1" "rank 1 killed" 30
  rm -r "$work"
  hosts_down

  hosts_up 3
  work=$(mktemp -d)
  start_ranks 3 4s
  ip -n "$PREFIX-switch" link set port2 down
  told 0 "rank 2" "link of rank 2 down" 30
  told 1 "rank 2" "link of rank 2 down" 30
  told 2 "rank 0" "link of rank 2 down" 30
  rm -r "$work"
  hosts_down
}

can_make_hosts
trap hosts_down EXIT
trap 'exit 130' INT TERM
correctness
faults
[ $failures = 0 ] || { printf '%d failures\n' $failures; exit 1; }
echo "all right"
