#!/usr/bin/env bash
# A Spring Boot jar: nccl4j is in jars inside the jar.
set -euo pipefail
here=$(dirname "$0")
cp "$here/pom.xml" .
mkdir -p src/main/java/org/example/boot
cp -r "$here/../program/." src/main/java
cp "$here/Application.java" src/main/java/org/example/boot
$MVN package -Dnccl4j.version="$VERSION"
java -jar target/spring-boot-1.jar | tee output
grep -q LaunchedClassLoader output
