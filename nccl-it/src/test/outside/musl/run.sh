#!/usr/bin/env bash
# What nccl4j asks of a C library, asked of musl: a program of musl finds the library by one of the
# file names, has each function, the numbers and the layouts, and loads jffi's library. There is no
# Java for musl among the packages that this looks for, so no rank runs on it.
set -euo pipefail
here=$(dirname "$0")
cannot() {
  echo "$1"
  exit 77
}
[ "$(uname -m)" = x86_64 ] || cannot "the library of jffi that this loads is for x86-64"
if ! command -v musl-gcc >/dev/null; then
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || cannot "there is no musl-gcc"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq musl-tools >/dev/null ||
    cannot "musl-tools cannot be installed"
fi
cp "$here/pom.xml" .
$MVN package -Dnccl4j.version="$VERSION"
musl-gcc -Wall -Werror -o musl "$here/musl.c"
readelf -l musl | grep -q ld-musl
java -cp "target/dependency/*" "$here/Asked.java" >asked
(mkdir jffi && cd jffi && jar xf ../target/dependency/jffi-*-native.jar)
./musl "$(find "$PWD/jffi" -path '*x86_64-Linux*' -name '*.so')" <asked >said || { cat said; exit 1; }
echo "musl has what nccl4j asks for: $(cat said)"
