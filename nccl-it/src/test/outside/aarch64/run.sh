#!/usr/bin/env bash
# Linux on aarch64, emulated: a Debian of that architecture in a folder, with its own Java and C
# library, run by qemu's user mode. Ranks as threads, and as processes over shared memory and over
# sockets. This shows that the native libraries load, and that the layouts and numbers of the calls
# are right. The emulator runs on this machine's memory, so it does not show that the memory order
# of a real aarch64 processor suffices; the code takes no order for granted that Java does not give.
set -euo pipefail
here=$(dirname "$0")
cannot() {
  echo "$1"
  exit 77
}
[ "$(id -u)" = 0 ] || cannot "only root can make the emulated system"
if ! command -v debootstrap >/dev/null || [ ! -x /usr/bin/qemu-aarch64-static ]; then
  command -v apt-get >/dev/null || cannot "there is no qemu-aarch64-static and no debootstrap"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq qemu-user-static debootstrap >/dev/null ||
    cannot "qemu-user-static and debootstrap cannot be installed"
fi

cp "$here/../ranks/pom.xml" .
mkdir -p src/main/java
cp -r "$here/../program/." "$here/../ranks/src/." src/main/java
$MVN package -Dnccl4j.version="$VERSION"

debootstrap --arch=arm64 --variant=minbase --foreign --include=openjdk-17-jre-headless,zlib1g \
  bookworm root ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >debootstrap.log 2>&1 ||
  cannot "Debian's packages cannot be had: $(tail -n 1 debootstrap.log)"
for package in root/var/cache/apt/archives/*.deb; do
  dpkg -x "$package" root
done
mkdir root/program
cp -r target/classes target/dependency root/program

# The emulator, so that a process of that system may start another.
formats=/proc/sys/fs/binfmt_misc
[ -e $formats/register ] || mount -t binfmt_misc binfmt_misc $formats ||
  cannot "the kernel cannot start programs through an emulator"
if [ ! -e $formats/qemu-aarch64 ] && [ ! -e $formats/nccl4j-aarch64 ]; then
  printf '%s' ':nccl4j-aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:/usr/bin/qemu-aarch64-static:F' \
    >$formats/register
  trap 'echo -1 >$formats/nccl4j-aarch64' EXIT
fi
# system NAME=VALUE... CLASS: a class of the program, in the emulated system, where a JVM may take a
# minute to start.
system() {
  unshare -m sh -c 'mount -t proc proc root/proc && mount --rbind /dev root/dev && exec chroot root "$@"' \
    sh env PATH=/usr/bin:/bin NCCL4J_INIT_TIMEOUT=300 "${@:1:$#-1}" timeout 600 \
    /usr/lib/jvm/java-17-openjdk-arm64/bin/java -Xss4m -XX:+UseSerialGC -Dexpected.arch=aarch64 \
    -cp '/program/classes:/program/dependency/*' "${@: -1}"
}
system org.example.sum.Sum
for transport in "" "NCCL_SHM_DISABLE=1 NCCL_P2P_DISABLE=1"; do
  port=$((20000 + RANDOM % 10000))
  ranks=()
  for rank in 0 1 2; do
    # shellcheck disable=SC2086 # some variables, or none
    system NCCL4J_RANK=$rank NCCL4J_NRANKS=3 NCCL_COMM_ID=127.0.0.1:$port NCCL4J_COMM_SECRET=emulated \
      $transport org.example.rank.Rank &
    ranks+=($!)
  done
  for rank in "${ranks[@]}"; do
    wait "$rank"
  done
done
echo "on emulated aarch64: 4 threads, 3 processes over shared memory, 3 over sockets: all right"
