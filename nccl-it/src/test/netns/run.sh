#!/bin/sh
# Ranks on several hosts, each a network namespace of this machine.
#
#   run.sh all       correctness on 2, 3 and 5 hosts, with the rate cut too, and with packets late
#                    and lost where the kernel can do that; a program's ranks by nccl run; a killed
#                    rank, and a link taken down, in the middle of a large all-reduce; one of two
#                    interfaces that goes silent; a link that is down while the ranks start;
#                    ranks of one host in containers that share more or less with each other
#   run.sh           the same with one case of each kind, on 2 and 3 hosts
#
# Skips with a reason where there are no namespaces. Needs what mvn verify has built.
set -u
cd "$(dirname "$0")"
. ./lib.sh
case $# in
  0) cases=few ;;
  *) cases=$1 ;;
esac
case $cases in
  few | all) ;;
  *)
    printf 'run.sh: unknown cases "%s"; pass all, or nothing for one case of each kind\n' "$cases" >&2
    exit 2
    ;;
esac
nccl=../../../../nccl
target=../../../target
# The network with faults.
testkit=$(find "$(cd ../../../testkit && pwd)/target" -name 'nccl-testkit-*.jar' |
  grep -v -e sources -e javadoc | head -n 1)
failures=0
# Ranks run too shortly to be worth C2's time: each process takes half of the time without it.
export NCCL_JAVA_OPTIONS="${NCCL_JAVA_OPTIONS:--XX:TieredStopAtLevel=1}"

fail() {
  printf 'FAILED: %s\n' "$1"
  failures=$((failures + 1))
}

# check HOSTS RANKS COLLECTIVE OPTIONS...: right results, on so many hosts.
check() {
  hosts=$1 ranks=$2 collective=$3
  shift 3
  log=$(mktemp)
  if in_host 0 timeout 300 "$nccl" perf "$collective" --processes "$ranks" --hosts "$(host_list)" \
    --launcher "$LAUNCHER" --jit-warmup 0 -n 2 -w 0 --bind-to none "$@" > "$log" 2>&1; then
    printf 'ok: %s, %d ranks on %d hosts %s\n' "$collective" "$ranks" "$hosts" "$*"
  else
    fail "$collective, $ranks ranks on $hosts hosts $*"
    tail -n 20 "$log"
  fi
  rm -f "$log"
}

# further CHECK...: a check of a kind that another check has too, if all cases run.
further() {
  [ "$cases" = few ] || "$@"
}

# sent INTERFACE: bytes that it has sent on host 0.
sent() {
  in_host 0 cat "/sys/class/net/$1/statistics/tx_bytes"
}

# two_rails: a second interface for each host; what the first has sent until now does not count.
two_rails() {
  second_rail
  first_before=$(sent eth0) second_before=$(sent eth1)
}

# rails WHAT: since two_rails, both interfaces of host 0 have sent more than a tenth of the bytes.
rails() {
  first=$(($(sent eth0) - first_before))
  second=$(($(sent eth1) - second_before))
  if [ "$first" -gt $((second / 9)) ] && [ "$second" -gt $((first / 9)) ]; then
    printf 'ok: %s goes over both interfaces (%s and %s bytes)\n' "$1" "$first" "$second"
  else
    fail "$1 goes over one interface (eth0 $first bytes, eth1 $second)"
  fi
}

# reset SECONDS OPTIONS...: an all-reduce over connections that are reset in the middle, into $log.
reset() {
  seconds=$1
  shift
  NCCL_NET=FaultySocket NCCL4J_FAULTS=resetsAfter=1000000 in_host 0 timeout "$seconds" "$nccl" perf all_reduce --class-path "$testkit" \
    --processes 3 --hosts "$(host_list)" --launcher "$LAUNCHER" -b 4M -e 4M "$@" > "$log" 2>&1
}

# A connection that is reset is replaced; without failover it is an error that names the ranks, and
# soon.
resets() {
  log=$(mktemp)
  if reset 100 -n 5 -w 0 --jit-warmup 0 &&
    grep -q "has taken over after" "$log"; then
    printf 'ok: reset connections: other sockets take over\n'
  else
    fail "an all-reduce over connections that are reset, with failover"
    cat "$log"
  fi
  if NCCL4J_NET_FAILOVER_TIMEOUT=0 reset 60; then
    fail "an all-reduce over connections that are reset ends without an error"
  elif grep -q "has lost its connection with rank" "$log"; then
    printf 'ok: reset connections: %s\n' "$(grep -o "rank . has lost its connection with rank ." "$log" | head -n 1)"
  else
    fail "an all-reduce over connections that are reset does not name the ranks"
    cat "$log"
  fi
  rm -f "$log"
}

# each_host DISCIPLINE...: what leaves every host goes through a queueing discipline.
each_host() {
  for host in $HOSTS; do
    ip netns exec "$host" tc qdisc replace dev eth0 root "$@" 2> /dev/null || return 1
  done
}

# disturbed HOSTS: all collectives with the rate cut, and with packets that are late and out of order.
disturbed() {
  if ! command -v tc > /dev/null 2>&1; then
    echo "SKIPPED: a cut rate (there is no tc)"
    return
  fi
  each_host tbf rate 100mbit burst 64kb latency 50ms || fail "tc tbf on $1 hosts"
  check "$1" "$1" all -b 4 -e 100K -f 25
  if each_host netem delay 2ms 1ms loss 1%; then
    check "$1" "$1" all -b 4 -e 20K -f 25
  else
    echo "SKIPPED: late and lost packets (this kernel has no netem)"
  fi
}

correctness() {
  for n in 2 3 5; do
    [ "$cases" = few ] && [ $n = 5 ] && continue
    hosts_up $n
    check $n $n all -b 4 -e 300K -f 17
    further check $n $n all -d all -b 1K -e 1K
    case $n in
      2)
        further check 2 4 all -b 4 -e 300K -f 17
        further check 2 2 reduce_scatter -d bfloat16 -o prod -b 40K -e 40K
        two_rails
        check 2 4 alltoall -b 4M -e 4M
        rails "an all-to-all of two ranks a host"
        hosts_down
        hosts_up $n
        two_rails
        NCCL_SOCKET_NTHREADS=2 check 2 2 all_reduce -b 4M -e 4M
        rails "an all-reduce over two sockets a connection"
        # A rail that leads nowhere is named, and not used.
        ip -n "$PREFIX-switch" link set rail1 down
        NCCL_SOCKET_NTHREADS=2 check 2 2 all_reduce -b 1M -e 1M
        # And so is the first interface, which the bootstrap tries first too.
        ip -n "$PREFIX-switch" link set rail1 up
        ip -n "$PREFIX-switch" link set port1 down
        further check 2 2 all_reduce -b 1M -e 1M
        NCCL_SOCKET_IFNAME=eth check 2 2 all_reduce -b 1M -e 1M
        ip -n "$PREFIX-switch" link set port1 up
        ;;
      3)
        further check 3 3 all_gather --algo pat -d all -b 1K -e 1K
        check 3 3 reduce_scatter --algo pat -d all -b 1K -e 1K
        check 3 5 all_reduce --algo tree -b 4 -e 3M -f 30
        further check 3 5 all_reduce --algo ring -b 4 -e 3M -f 30
        NCCL_SOCKET_NTHREADS=2 NCCL_NSOCKS_PERTHREAD=2 further check 3 3 all_reduce -b 3M -e 3M
        NCCL_NET=FaultySocket NCCL4J_FAULTS=seed=1,piece=61,stallsEvery=30000,stallMillis=5,delayLooks=20 \
          check 3 3 all --class-path "$testkit" -b 4 -e 3K -f 17
        resets
        NCCL_SOCKET_FAMILY=AF_INET6 NCCL_SOCKET_IFNAME==eth0 check 3 3 all_gather -b 1M -e 1M
        ;;
    esac
    [ "$cases" = few ] && [ $n != 2 ] || disturbed $n
    hosts_down
  done
}

class_path() {
  path=$target/classes:$target/test-classes
  for jar in "$target"/modules/*.jar; do path=$path:$jar; done
  echo "$path"
}

# launch OPTIONS... -- PROGRAM...: nccl run on all hosts, its output in $log.
launch() {
  in_host 0 timeout 300 "$nccl" run --hosts "$(host_list)" --launcher "$LAUNCHER" "$@" > "$log" 2>&1
}

launched() {
  hosts_up 3
  log=$(mktemp)
  if launch -n 5 -- java -Xmx256m -XX:TieredStopAtLevel=1 -cp "$(class_path)" org.nccl4j.it.launch.LaunchedRank &&
    [ "$(grep -c 'nccl run: rank . of 5.*all right' "$log")" = 5 ]; then
    echo "ok: nccl run, 5 ranks on 3 hosts"
  else
    fail "nccl run, 5 ranks on 3 hosts"
    cat "$log"
  fi

  # The blanks and quotes of a word reach the program; the secret is on no command line.
  launch -n 3 -- sh -c 'echo "$0 on $(ip -4 -o addr show eth0 | grep -o "10.99.0.[0-9]")"; printf %s "$NCCL4J_UNIQUE_ID" | grep -qaF -f - /proc/[0-9]*/cmdline && exit 9; exit 0' "it's rank"
  status=$?
  for i in 1 2 3; do
    [ "$(grep -c "\[$((i - 1))\] it's rank on 10.99.0.$i" "$log")" = 1 ] || status="$status, no rank on host $i"
  done
  if [ "$status" = 0 ]; then
    echo "ok: nccl run, words with blanks, each rank on its host"
  else
    fail "nccl run: each rank on its host ($status)"
    cat "$log"
  fi

  launch -n 3 -- sh -c 'test $NCCL4J_RANK = 1 && exit 7; sleep 600'
  status=$?
  left=600
  while [ -n "$(for host in $HOSTS; do ip netns pids "$host"; done)" ] && [ $left -gt 0 ]; do
    sleep 0.1
    left=$((left - 1))
  done
  if [ $status = 7 ] && [ $left -gt 0 ]; then
    echo "ok: nccl run, a rank that fails ends the others on all hosts"
  else
    fail "nccl run: status $status instead of 7, or ranks are left"
    cat "$log"
  fi
  rm -f "$log"
  hosts_down
}

# contained WHAT TRANSPORT LAUNCHER: two ranks of one host, each in a container that LAUNCHER makes,
# are connected by TRANSPORT, with right results. If that is NET, each says why they share no memory.
contained() {
  case $2 in
    NET) apart=2 ;;
    *) apart=0 ;;
  esac
  log=$(mktemp)
  if NCCL_DEBUG=INFO in_host 0 timeout 300 "$nccl" perf all --processes 2 --hosts "$(host_list)" \
    --launcher "$3" --jit-warmup 0 -n 2 -w 0 --bind-to none -b 4 -e 300K -f 17 > "$log" 2>&1 &&
    [ "$(grep -c "rank [01]: $2 chosen" "$log")" = 2 ] &&
    [ "$(grep -c "shares no memory of the host with ranks .* a network connects them" "$log")" = $apart ]; then
    printf 'ok: containers with %s are connected by %s\n' "$1" "$2"
  else
    fail "containers with $1 are to be connected by $2"
    tail -n 40 "$log"
  fi
  rm -f "$log"
}

# containers: namespaces of processes, mounts and networks, with a common /dev/shm or without.
containers() {
  command -v unshare > /dev/null 2>&1 && unshare -m -p -f -i --mount-proc true 2> /dev/null || {
    echo "SKIPPED: containers: this kernel or container forbids namespaces"
    return
  }
  hosts_up 2
  work=$(mktemp -d)
  printf '#!/bin/sh\nmount -t tmpfs none /dev/shm && exec "$@"\n' > "$work/private"
  chmod +x "$work/private"
  own='unshare -m -p -f -i --kill-child --mount-proc'
  pod="ip netns exec $PREFIX-0 env NCCL_HOSTID=node $own"
  contained "a common network and /dev/shm" SHM "$pod"
  further contained "a common network" NET "$pod $work/private"
  pod="ip netns exec {host} env NCCL_HOSTID=node $own"
  further contained "a common /dev/shm" SHM "$pod"
  contained "nothing in common" NET "$pod $work/private"
  rm -r "$work"
  hosts_down
}

# start_ranks N SECONDS: an endless all-reduce, each rank's output in $work/RANK.
start_ranks() {
  path=$(class_path)
  rank=0
  while [ $rank -lt "$1" ]; do
    in_host $rank env NCCL4J_RANK=$rank NCCL4J_NRANKS="$1" NCCL4J_HEARTBEAT_TIMEOUT="$2" \
      NCCL_COMM_ID=10.99.0.1:29555 NCCL4J_COMM_SECRET=netns \
      java -Xmx256m -XX:TieredStopAtLevel=1 -cp "$path" org.nccl4j.it.netns.Endurance > "$work/$rank" 2>&1 &
    eval "pid$rank=$!"
    rank=$((rank + 1))
  done
  left=600
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

# late_link: a rank whose network comes up only after the ranks have started.
late_link() {
  hosts_up 3
  work=$(mktemp -d)
  ip -n "$PREFIX-switch" link set port2 down
  (
    sleep 4
    ip -n "$PREFIX-switch" link set port2 up
  ) &
  start_ranks 3 30s
  ready=$(cat "$work"/* | grep -c READY)
  if [ "$ready" = 3 ]; then
    echo "ok: link of rank 2 down while it starts"
  else
    fail "link of rank 2 down while it starts: $ready of 3 ranks have a communicator"
    cat "$work"/*
  fi
  for host in 0 1 2; do
    kill -9 $(ip netns pids "$PREFIX-$host") 2>/dev/null
  done
  wait "$pid0" "$pid1" "$pid2" 2>/dev/null
  rm -r "$work"
  hosts_down
}

# silent: what one interface carries vanishes in the middle of all-reduces over two, and nothing
# breaks. The other one takes over, with right results.
silent() {
  hosts_up 2
  two_rails
  log=$(mktemp)
  NCCL_SOCKET_NTHREADS=2 NCCL4J_NET_SILENCE_TIMEOUT=2s in_host 0 timeout 300 "$nccl" perf all_reduce \
    --processes 2 --hosts "$(host_list)" --launcher "$LAUNCHER" --jit-warmup 0 -n 400 -w 0 \
    --bind-to none -b 4M -e 4M > "$log" 2>&1 &
  pid=$!
  left=600
  while [ $(($(sent eth1) - second_before)) -lt 30000000 ] && kill -0 $pid 2>/dev/null && [ $left -gt 0 ]; do
    sleep 0.1
    left=$((left - 1))
  done
  # Its port stays up, but the switch passes nothing on to it or from it.
  ip -n "$PREFIX-switch" link set rail1 nomaster
  if wait $pid && grep -q "has taken over after" "$log"; then
    printf 'ok: a silent interface: %s\n' "$(grep -o "the socket . of .*has taken over.*" "$log" | head -n 1)"
  else
    fail "all-reduces while one of two interfaces goes silent"
    tail -n 40 "$log"
  fi
  rm -f "$log"
  hosts_down
}

faults() {
  hosts_up 3
  work=$(mktemp -d)
  start_ranks 3 30s
  victim=$(ip netns pids "$PREFIX-1")
  kill -9 $victim
  told 0 "rank 1" "rank 1 killed" 120
  told 2 "rank 1" "rank 1 killed" 120
  rm -r "$work"
  hosts_down

  hosts_up 3
  work=$(mktemp -d)
  start_ranks 3 10s
  ip -n "$PREFIX-switch" link set port2 down
  told 0 "rank 2" "link of rank 2 down" 120
  told 1 "rank 2" "link of rank 2 down" 120
  told 2 "rank 0" "link of rank 2 down" 120
  rm -r "$work"
  hosts_down
}

can_make_hosts
trap hosts_down EXIT
trap 'exit 130' INT TERM
correctness
launched
containers
late_link
silent
faults
[ $failures = 0 ] || { printf '%d failures\n' $failures; exit 1; }
echo "all right"
