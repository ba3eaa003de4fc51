#!/usr/bin/env bash
# Two class loaders in one process, each with a copy of nccl4j.
set -euo pipefail
here=$(dirname "$0")
cp "$here/pom.xml" .
mkdir -p src/main/java
cp -r "$here/../program/." src/main/java
$MVN package -Dnccl4j.version="$VERSION"
java "$here/TwoLoaders.java" target/classes target/dependency
