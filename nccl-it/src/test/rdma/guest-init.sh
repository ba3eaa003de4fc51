#!/bin/sh
# The guest's first process; see guest.sh.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t devpts devpts /dev/pts
for link in fd:/proc/self/fd stdin:/proc/self/fd/0 stdout:/proc/self/fd/1 stderr:/proc/self/fd/2; do
  ln -sfn "${link#*:}" "/dev/${link%%:*}"
done
run= folder=
for word in $(cat /proc/cmdline); do
  case $word in
    guest.run=*) run=${word#*=} ;;
    guest.folder=*) folder=${word#*=} ;;
  esac
done
end() {
  sync
  echo o >/proc/sysrq-trigger 2>/dev/null
  busybox poweroff -f
}
mount -t tmpfs tmpfs /run
mkdir -p /run/tmp/changes /run/tmp/work
mount -t overlay -o lowerdir=/tmp,upperdir=/run/tmp/changes,workdir=/run/tmp/work overlay /tmp
chmod 1777 /tmp
mount -t hostfs -o "$folder" none "$folder" || { echo "cannot mount $folder"; end; }

ip link set lo up
# Two Ethernets, ve0 and ve1, at the ports sw0 and sw1 of a switch, all of MTU 4200. Both addresses are
# this kernel's own, so it would take the short way over lo: rules before the table of local addresses
# send it through the switch.
if ! ip link add switch type bridge forward_delay 0 || ! ip rule add pref 1 lookup local; then
  echo "the guest's kernel has no bridge or no routing tables: build it by build-kernel.sh" >"$run/output"
  echo 99 >"$run/status"
  end
fi
ip rule del pref 1 lookup local
ip link set switch mtu 4200 up
for n in 1 2; do
  port=ve$((n - 1)) plug=sw$((n - 1)) other=$((3 - n))
  ip link add $port mtu 4200 type veth peer name $plug mtu 4200
  ip link set $plug master switch up
  ip link set $port up
  ip addr add 10.99.0.$n/24 dev $port
  echo 1 >/proc/sys/net/ipv4/conf/$port/accept_local
  echo 0 >/proc/sys/net/ipv4/conf/$port/rp_filter
  ip rule add pref 1 iif lo from 10.99.0.$n to 10.99.0.$other lookup 10$n
  ip route add 10.99.0.$other dev $port src 10.99.0.$n table 10$n
done
echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
ip neigh replace 10.99.0.2 lladdr "$(cat /sys/class/net/ve1/address)" dev ve0
ip neigh replace 10.99.0.1 lladdr "$(cat /sys/class/net/ve0/address)" dev ve1
ip rule add pref 2 lookup local
ip rule del pref 0
rdma link add rxe0 type rxe netdev lo || echo "there is no Soft-RoCE in this kernel"
rdma link add rxe1 type rxe netdev ve0
rdma link add rxe2 type rxe netdev ve1
cd "$folder"
ulimit -l unlimited
HOME=/tmp LANG=C.UTF-8 bash "$run/command" </dev/null >"$run/output" 2>&1
echo $? >"$run/status"
end
