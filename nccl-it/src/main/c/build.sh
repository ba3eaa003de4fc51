#!/bin/sh
# Makes libnccl.so.2 where gcc and the JDK's headers are, and where they are not says so.
#   build.sh FOLDER JAVA_HOME
set -eu
cd "$(dirname "$0")"
out=$1
home=$2
cc=${CC:-$(command -v gcc || true)}
absence=
[ -n "$cc" ] || absence="gcc was not found"
[ -f "$home/include/jni.h" ] || absence="$home has no include/jni.h"
if [ -n "$absence" ]; then
  echo "no libnccl.so.2: $absence"
  exit 0
fi
mkdir -p "$out"
# Built beside and renamed, since a process may have the old one mapped.
"$cc" -std=gnu11 -O2 -g0 -fPIC -shared -fvisibility=hidden -Wall -Wextra -Werror \
  -Wno-format-truncation \
  -I"$home/include" -I"$home/include/linux" \
  -Wl,-soname,libnccl.so.2 -Wl,-z,nodelete -Wl,-z,now -Wl,--no-undefined -Wl,--build-id=none -s \
  -o "$out/libnccl.so.2.$$" ./*.c -ldl -lpthread
mv "$out/libnccl.so.2.$$" "$out/libnccl.so.2"
