# Hosts as network namespaces: made, used and removed by the scripts beside this one.
#
#   hosts_up N      makes N namespaces, joined by a switch; names in $HOSTS (words)
#   second_rail     gives each host an eth1 with 10.98.0.(I+1)/24, on a switch of its own
#   further_rail N  gives each host an ethN with 10.(99-N).0.(I+1)/24, on a switch of its own
#   limit_links M   limits what each interface sends to M Mbit/s, where the kernel can; 0 for no limit
#   link_down I N   takes ethN of the I-th host down; link_not_down repairs it. Likewise link_no_carrier
#                   (the switch's port is down), link_silent (the switch passes nothing on), link_mute
#                   (what the host sends is lost), link_deaf (what is sent to it is lost)
#   sent_more I ETH BYTES   waits until the I-th host has sent so much more, but not for long
#   hosts_down      removes them, and ends what still runs in them
#   in_host I CMD   runs a command in the I-th, from 0
#
# The namespaces share memory, so NCCL_HOSTID makes hosts of them. Needs root and iproute2. Each namespace has lo and eth0 with 10.99.0.(I+1)/24 and fd99::(I+1)/64.

PREFIX=nccl4j$$
HOSTS=
RAILS=0
LIMIT=0

skip() {
  printf 'SKIPPED: %s\n' "$1"
  exit 0
}

can_make_hosts() {
  [ "$(id -u)" = 0 ] || skip "network namespaces need root"
  command -v ip >/dev/null 2>&1 || skip "iproute2 is missing (apt-get install iproute2)"
  ip netns add "$PREFIX-probe" 2>/dev/null || skip "this kernel or container forbids network namespaces"
  if ! ip -n "$PREFIX-probe" link add probe0 type veth peer name probe1 2>/dev/null; then
    ip netns del "$PREFIX-probe"
    skip "this kernel has no veth devices"
  fi
  ip netns del "$PREFIX-probe"
}

hosts_up() {
  RAILS=1
  ip netns add "$PREFIX-switch"
  ip -n "$PREFIX-switch" link add br0 type bridge
  ip -n "$PREFIX-switch" link set br0 up
  i=0
  while [ $i -lt "$1" ]; do
    host=$PREFIX-$i
    ip netns add "$host"
    HOSTS="$HOSTS $host"
    ip -n "$host" link set lo up
    ip -n "$host" link add eth0 type veth peer name "port$i" netns "$PREFIX-switch"
    ip -n "$PREFIX-switch" link set "port$i" master br0 up
    ip -n "$host" addr add "10.99.0.$((i + 1))/24" dev eth0
    ip -n "$host" addr add "fd99::$((i + 1))/64" dev eth0 nodad 2>/dev/null || true
    ip -n "$host" link set eth0 up
    i=$((i + 1))
  done
}

second_rail() {
  further_rail 1
}

further_rail() {
  ip -n "$PREFIX-switch" link add "br$1" type bridge
  ip -n "$PREFIX-switch" link set "br$1" up
  i=0
  for host in $HOSTS; do
    plug=$(plug_of $i "$1")
    ip -n "$host" link add "eth$1" type veth peer name "$plug" netns "$PREFIX-switch"
    ip -n "$PREFIX-switch" link set "$plug" master "br$1" up
    ip -n "$host" addr add "10.$((99 - $1)).0.$((i + 1))/24" dev "eth$1"
    ip -n "$host" link set "eth$1" up
    i=$((i + 1))
  done
  RAILS=$(($1 + 1))
}

# plug_of I N: the switch's port of ethN of the I-th host.
plug_of() {
  case $2 in
    0) echo "port$1" ;;
    1) echo "rail$1" ;;
    *) echo "rail$2-$1" ;;
  esac
}

limit_links() {
  LIMIT=$1
  i=0
  for host in $HOSTS; do
    n=0
    while [ $n -lt $RAILS ]; do
      link_not_mute $i $n
      n=$((n + 1))
    done
    i=$((i + 1))
  done
}

link_down() {
  ip -n "$PREFIX-$1" link set "eth$2" down
}

link_not_down() {
  ip -n "$PREFIX-$1" link set "eth$2" up
}

link_no_carrier() {
  ip -n "$PREFIX-switch" link set "$(plug_of "$1" "$2")" down
}

link_not_no_carrier() {
  ip -n "$PREFIX-switch" link set "$(plug_of "$1" "$2")" up
}

link_silent() {
  ip -n "$PREFIX-switch" link set "$(plug_of "$1" "$2")" nomaster
}

link_not_silent() {
  ip -n "$PREFIX-switch" link set "$(plug_of "$1" "$2")" master "br$2"
}

link_mute() {
  tc -n "$PREFIX-$1" qdisc replace dev "eth$2" root blackhole
}

link_not_mute() {
  tc -n "$PREFIX-$1" qdisc del dev "eth$2" root 2>/dev/null || true
  [ "$LIMIT" = 0 ] ||
    tc -n "$PREFIX-$1" qdisc replace dev "eth$2" root tbf rate "${LIMIT}mbit" burst 256kb latency 50ms 2>/dev/null || true
}

link_deaf() {
  tc -n "$PREFIX-switch" qdisc replace dev "$(plug_of "$1" "$2")" root blackhole
}

link_not_deaf() {
  tc -n "$PREFIX-switch" qdisc del dev "$(plug_of "$1" "$2")" root 2>/dev/null || true
}

# The shell's own commands alone: a program to start takes longer than some megabytes.
sent_more() {
  ip netns exec "$PREFIX-$1" sh -c '
    file=/sys/class/net/$1/statistics/tx_bytes looks=0
    read before <$file
    while [ $looks -lt 3000 ] && read now <$file && [ $((now - before)) -lt "$2" ]; do
      looks=$((looks + 1))
    done' sh "$2" "$3"
}

hosts_down() {
  for host in $HOSTS; do
    for pid in $(ip netns pids "$host" 2>/dev/null); do
      kill -9 "$pid" 2>/dev/null || true
    done
  done
  for host in $HOSTS $PREFIX-switch; do
    ip netns del "$host" 2>/dev/null || true
  done
  HOSTS=
}

in_host() {
  host=$PREFIX-$1
  shift
  ip netns exec "$host" env NCCL_HOSTID="$host" "$@"
}

# Names for --hosts.
host_list() {
  echo $HOSTS | tr ' ' ','
}

LAUNCHER='ip netns exec {host} env NCCL_HOSTID={host}'
