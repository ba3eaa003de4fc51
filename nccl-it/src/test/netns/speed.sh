#!/bin/sh
# How fast ranks on two hosts are, each a network namespace of this machine, beside what else there
# is on the same links in the same run:
#
#   speed.sh         beside iperf3, a TCP ping-pong in C, and Open MPI over TCP
#   speed.sh tcp     beside iperf3 and the ping-pong alone
#   speed.sh mpi     beside Open MPI alone
#   speed.sh mpi all_reduce broadcast    beside Open MPI, these collectives alone
#
# Prints a table of medians of SPEED_ROUNDS rounds (3 unless set); the exit status is 1 if a mark is
# missed. A round of a collective beside Open MPI takes half a minute; SPEED_SIZES are perf's options
# for sizes there (-b 8 -e 64M -f 4 unless set), and each round is added to the file SPEED_RAW, if
# that is set. Needs root, iproute2, iperf3, gcc and Open MPI; says what is missing. Uses all cores:
# nothing else should run.
set -u
cd "$(dirname "$0")"
. ./lib.sh
nccl=../../../../nccl
port=5201
missed=0
what=${1:-tcp mpi}
[ $# -gt 0 ] && shift
collectives=${*:-all_reduce all_gather reduce_scatter broadcast sendrecv}
sizes=${SPEED_SIZES:--b 8 -e 64M -f 4}
rounds=$(seq "${SPEED_ROUNDS:-3}")

for tool in iperf3 gcc mpirun mpicc; do
  command -v $tool > /dev/null 2>&1 || skip "$tool is missing (apt-get install iperf3 gcc openmpi-bin libopenmpi-dev)"
done

clean_up() {
  hosts_down
  rm -rf "$work"
}

# perf COLLECTIVE OPTIONS...: two ranks, one on each host. Their compilers share the core with what is
# measured, and an operation takes so long here that perf's own warm-up does not suffice.
perf() {
  collective=$1
  shift
  in_host 0 timeout 300 "$nccl" perf "$collective" --processes 2 --hosts "$(host_list)" \
    --launcher "$LAUNCHER" --jit-warmup 5000 "$@" > "$work/out" 2>&1 || { cat "$work/out"; exit 1; }
}

# The column of the first row: out of place, microseconds.
micros() {
  awk '$1 ~ /^[0-9]+$/ && NF > 8 { print $6; exit }' "$work/out"
}

# iperf OPTIONS...: what one direction moves, in GB/s; the slower of the two if both are used.
iperf() {
  in_host 0 timeout 30 iperf3 -c 10.99.0.2 -p $port -t 2 -f k "$@" > "$work/iperf" 2>&1 ||
    { cat "$work/iperf"; exit 1; }
  awk '/receiver/ { for (i = 2; i <= NF; i++) if ($i == "Kbits/sec") { v = $(i - 1) / 8e6
    if (!n++ || v < least) least = v } } END { printf "%.3f\n", least }' "$work/iperf"
}

median() {
  sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# mark NAME OURS THEIRS RATIO LEAST: a row; the ratio must be no less than the last.
mark() {
  verdict=$(awk -v r="$4" -v l="$5" 'BEGIN { print (r + 0 >= l + 0 ? "ok" : "MISSED") }')
  [ "$verdict" = ok ] || missed=$((missed + 1))
  printf '%-44s %10s %10s %8s   >= %-5s %s\n' "$1" "$2" "$3" "$4" "$5" "$verdict"
}

ratio() {
  awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'
}

# Each a few times, by turns; medians.
beside_iperf3() {
  in_host 1 iperf3 -s -p $port > /dev/null 2>&1 &
  sleep 1
  for _ in $rounds; do
    iperf >> "$work/one"
    iperf --bidir >> "$work/both"
    for collective in all_reduce sendrecv; do
      perf $collective -b 64M -e 64M
      awk -v us="$(micros)" 'BEGIN { printf "%.3f\n", 67.108864e3 / us }' >> "$work/$collective"
    done
  done
  one=$(median < "$work/one") both=$(median < "$work/both")
  printf '\n%-44s %10s %10s %8s\n' "64 MB, GB/s each way" ours iperf3 ratio
  for collective in all_reduce sendrecv; do
    ours=$(median < "$work/$collective")
    mark "$collective, iperf3 with as many streams" "$ours" "$both" "$(ratio "$ours" "$both")" 0.8
    # For comparison: half as many streams.
    mark "$collective, iperf3 one way, one stream" "$ours" "$one" "$(ratio "$ours" "$one")" 0
  done
}

beside_ping_pong() {
  gcc -O2 -o "$work/pingpong" pingpong.c || exit 1
  in_host 1 "$work/pingpong" $((port + 1)) &
  sleep 1
  for _ in $rounds; do
    in_host 0 "$work/pingpong" $((port + 1)) 10.99.0.2 8 1 >> "$work/pings"
    perf all_reduce -b 8 -e 8
    micros >> "$work/small"
  done
  ours=$(median < "$work/small") theirs=$(median < "$work/pings")
  printf '\n%-44s %10s %10s %8s\n' "8 B, us" ours one-way ratio
  mark "three TCP ping-pongs beside all_reduce" "$ours" "$theirs" \
    "$(awk -v a="$theirs" -v b="$ours" 'BEGIN { printf "%.2f", 3 * a / b }')" 1
}

# Rows of one collective and size together, medians of times and of their ratios.
medians() {
  sort -k1,1 -k2,2n -k5,5n "$work/all" | awk '
    function flush() { if (n) { m = int((n + 1) / 2); print key, mid(ours), mid(theirs), ratio[m] } n = 0 }
    function mid(a,  i, j, t) { for (i = 2; i <= n; i++) for (j = i; j > 1 && a[j] < a[j - 1]; j--) {
      t = a[j]; a[j] = a[j - 1]; a[j - 1] = t } return a[int((n + 1) / 2)] }
    { if ($1 " " $2 != key) { flush(); key = $1 " " $2 } n++; ours[n] = $3 + 0; theirs[n] = $4 + 0; ratio[n] = $5 + 0 }
    END { flush() }' > "$work/rows"
}

beside_mpi() {
  printf '\n%-44s %10s %10s %8s\n' "Open MPI's time / ours, us" ours theirs ratio
  for _ in $rounds; do
    for collective in $collectives; do
      perf "$collective" $sizes --compare mpi
      awk -v c="$collective" '$1 ~ /^[0-9]+$/ && NF > 8 {
        print c, $1, (c == "broadcast" ? $10 : $6), $(NF - 1), $NF }' "$work/out" | tee -a "${SPEED_RAW:-/dev/null}" >> "$work/all"
    done
  done
  medians
  while read -r collective bytes ours theirs times; do
    mark "$collective $bytes" "$ours" "$theirs" "$times" 0.8
  done < "$work/rows"
  for collective in $collectives .; do
    mean=$(awk -v c="$collective" '$1 ~ c { s += log($5); n++ } END { printf "%.2f", exp(s / n) }' "$work/rows")
    [ "$collective" = . ] && collective=all
    # Asked for is that of all together.
    least=0
    [ "$collective" = all ] && least=1.3
    mark "geometric mean, $collective" "" "" "$mean" $least
  done
}

can_make_hosts
work=$(mktemp -d)
trap clean_up EXIT
trap 'exit 130' INT TERM
hosts_up 2
for part in $what; do
  case $part in
    tcp) beside_iperf3; beside_ping_pong ;;
    mpi) beside_mpi ;;
    *) echo "speed.sh: $part is neither tcp nor mpi"; exit 2 ;;
  esac
done
[ $missed = 0 ] || { printf '\n%d marks missed\n' $missed; exit 1; }
