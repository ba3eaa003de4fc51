#!/usr/bin/env bash
# A Maven project on the class path, without the CUDA kernels and with them.
set -euo pipefail
here=$(dirname "$0")
cp "$here/pom.xml" .
mkdir -p src/main/java
cp -r "$here/../program/." src/main/java
$MVN package -Dnccl4j.version="$VERSION" -Dkernels.scope=test
[ -z "$(find target/dependency -name 'nccl-kernels*')" ] || { echo "the kernels are there"; exit 1; }
echo "without kernels: $(cat target/dependency/nccl-*.jar | wc -c) bytes of nccl4j"
java -cp "target/classes:target/dependency/*" org.example.sum.FindKernels without
java -cp "target/classes:target/dependency/*" org.example.sum.Sum
$MVN package -Dnccl4j.version="$VERSION"
java -cp "target/classes:target/dependency/*" org.example.sum.FindKernels
[ -z "$(find target/dependency -name 'jcuda-natives*')" ] || { echo "JCuda's natives are there"; exit 1; }
java -cp "target/classes:target/dependency/*" org.example.sum.Sum
