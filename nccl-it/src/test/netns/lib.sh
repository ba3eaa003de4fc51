# Hosts as network namespaces: made, used and removed by the scripts beside this one.
#
#   hosts_up N      makes N namespaces, joined by a switch; names in $HOSTS (words)
#   second_rail     gives each host an eth1 with 10.98.0.(I+1)/24, on a switch of its own
#   hosts_down      removes them, and ends what still runs in them
#   in_host I CMD   runs a command in the I-th, from 0
#
# The namespaces share memory, so NCCL_HOSTID makes hosts of them. Needs root and iproute2. Each namespace has lo and eth0 with 10.99.0.(I+1)/24 and fd99::(I+1)/64.

PREFIX=nccl4j$$
HOSTS=

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
  ip -n "$PREFIX-switch" link add br1 type bridge
  ip -n "$PREFIX-switch" link set br1 up
  i=0
  for host in $HOSTS; do
    ip -n "$host" link add eth1 type veth peer name "rail$i" netns "$PREFIX-switch"
    ip -n "$PREFIX-switch" link set "rail$i" master br1 up
    ip -n "$host" addr add "10.98.0.$((i + 1))/24" dev eth1
    ip -n "$host" link set eth1 up
    i=$((i + 1))
  done
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
