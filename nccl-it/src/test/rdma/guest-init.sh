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
# What is below /tmp is reached through it again only if the folder is there.
mount -t tmpfs -o mode=1777 tmpfs /tmp
mkdir -p "$folder"
mount -t hostfs -o "$folder" none "$folder" || { echo "cannot mount $folder"; end; }

ip link set lo up
ip link add dummy0 type dummy
ip link set dummy0 mtu 1500 up
ip addr add 10.99.0.1/24 dev dummy0
rdma link add rxe0 type rxe netdev lo || echo "there is no Soft-RoCE in this kernel"
rdma link add rxe1 type rxe netdev dummy0
cd "$folder"
ulimit -l unlimited
HOME=/tmp LANG=C.UTF-8 bash "$run/command" </dev/null >"$run/output" 2>&1
echo $? >"$run/status"
end
