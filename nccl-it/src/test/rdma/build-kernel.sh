#!/usr/bin/env bash
# build-kernel.sh FILE: builds the RDMA guest's kernel, a User Mode Linux with Soft-RoCE, as the
# program FILE. Source: Debian's package linux-source. Needs root only to install missing packages;
# takes some minutes and 2 GB in $TMPDIR. Does nothing when FILE is newer than kernel.config.
set -euo pipefail
[ $# = 1 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
target=$(realpath -m "$1")
if [ -x "$target" ] && [ "$target" -nt "$here/kernel.config" ]; then
  echo "$target is up to date"
  exit 0
fi

packages=(gcc make flex bison bc xz-utils libc6-dev)
missing=()
for package in "${packages[@]}"; do
  dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  apt-get install -y -qq --no-install-recommends "${missing[@]}" ||
    { echo "install these packages first: ${missing[*]}" >&2; exit 1; }
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
source_package=$(apt-cache depends linux-source | awk '$1 == "Depends:" {print $2}')
apt-get download -qq -o APT::Sandbox::User=root "$source_package"
dpkg-deb -x "$source_package"_*.deb unpacked
mkdir tree
tar -xJf unpacked/usr/src/"$source_package".tar.xz -C tree --strip-components=1
rm -rf unpacked
cd tree

# User Mode Linux ticks at a fixed 100 Hz and has one processor: two processes that poll would
# change places every 10 ms.
sed -i '/^config HZ$/,/default/s/default 100$/default 1000/' arch/um/Kconfig

make -s ARCH=um KCONFIG_ALLCONFIG="$here/kernel.config" allnoconfig
for wanted in HOSTFS OVERLAY_FS INFINIBAND_USER_ACCESS INFINIBAND_ADDR_TRANS RDMA_RXE; do
  grep -q "^CONFIG_$wanted=y" .config ||
    { echo "this kernel's source does not take CONFIG_$wanted; see kernel.config" >&2; exit 1; }
done
make -s ARCH=um -j"$(nproc)" linux
strip -o "$work/linux" linux
mkdir -p "$(dirname "$target")"
mv "$work/linux" "$target"
echo "built $target"
