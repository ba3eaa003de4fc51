#!/usr/bin/env bash
# Maven finds the same jars on every platform.
set -euo pipefail
cp "$(dirname "$0")/pom.xml" .
while IFS=, read -r name arch; do
  $MVN org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath -Dnccl4j.version="$VERSION" \
    "-Dos.name=$name" "-Dos.arch=$arch" -Dmdep.outputFile=jars
  if [ -f first ]; then
    cmp first jars
  else
    mv jars first
  fi
done <<'P'
Linux,amd64
Linux,aarch64
Mac OS X,aarch64
Windows 11,amd64
P
[ -s first ]
echo "the same $(tr : '\n' <first | wc -l) jars on Linux x86-64 and aarch64, macOS and Windows"
