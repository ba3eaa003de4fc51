#!/usr/bin/env bash
# A Maven project of modules, first with java, then in an image of jlink, where every module has a
# descriptor.
set -euo pipefail
here=$(dirname "$0")
home=${JAVA_HOME:-$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")}
[ -d "$home/jmods" ] || { echo "$home has no jmods, of which images are made"; exit 77; }
cp "$here/pom.xml" .
mkdir -p src/main/java
cp -r "$here/../program/." "$here/module-info.java" src/main/java
$MVN package -Dnccl4j.version="$VERSION"
"$home/bin/java" -p target/classes:target/dependency -m org.example.sum/org.example.sum.Sum
find_kernels=(--add-exports org.nccl4j.device/org.nccl4j.device.cuda.driver=org.example.sum
  -m org.example.sum/org.example.sum.FindKernels)
"$home/bin/java" -p target/classes:target/dependency "${find_kernels[@]}"
# The described jars instead of those without descriptors.
mkdir modules
cp target/dependency/*.jar modules
cp target/described/*.jar modules
"$home/bin/jlink" -p modules:target/classes --add-modules org.example.sum,org.nccl4j.transport.p2p,org.nccl4j.kernels \
  --strip-debug --no-header-files --no-man-pages --output image
image/bin/java "${find_kernels[@]}"
echo "an image of $(du -sm image | cut -f 1) MB"
image/bin/java -m org.example.sum/org.example.sum.Sum
