#!/usr/bin/env bash
# A Maven project on the class path.
set -euo pipefail
here=$(dirname "$0")
cp "$here/pom.xml" .
mkdir -p src/main/java
cp -r "$here/../program/." src/main/java
$MVN package -Dnccl4j.version="$VERSION"
[ -z "$(find target/dependency -name 'jcuda-natives*')" ] || { echo "JCuda's natives are there"; exit 1; }
java -cp "target/classes:target/dependency/*" org.example.sum.Sum
