#!/usr/bin/env bash
# Memory of JavaCPP, by its address.
set -euo pipefail
here=$(dirname "$0")
[ "$(uname -m)" = x86_64 ] || { echo "the native libraries are for x86-64"; exit 77; }
cp "$here/pom.xml" .
$MVN package -Dnccl4j.version="$VERSION"
java -cp "target/dependency/*" "$here/Pointers.java"
