#!/usr/bin/env bash
# Tensors of DJL's PyTorch engine, without a copy. Downloads 110 MB.
set -euo pipefail
here=$(dirname "$0")
[ "$(uname -m)" = x86_64 ] || { echo "the native libraries are for x86-64"; exit 77; }
cp "$here/pom.xml" .
$MVN package -Dnccl4j.version="$VERSION"
java -cp "target/dependency/*" "$here/Tensors.java"
