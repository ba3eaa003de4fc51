#!/usr/bin/env bash
# An sbt project. sbt's launcher and all that it needs come from Maven Central.
set -euo pipefail
here=$(dirname "$0")
sbt=1.11.7
$MVN org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy "-Dartifact=org.scala-sbt:sbt-launch:$sbt" \
  -DoutputDirectory=launcher
cp "$here/build.sbt" .
mkdir -p src/main/java project
echo "sbt.version=$sbt" >project/build.properties
cp -r "$here/../program/." src/main/java
printf '[repositories]\n  local\n  maven-central\n' >repositories
java -Xmx1g -Dsbt.repository.config=repositories -Dsbt.boot.directory="$WORK/boot" \
  -Dsbt.global.base="$WORK/global" -Dsbt.ivy.home="$WORK/ivy" -Dsbt.coursier.home="$WORK/coursier" \
  -Dsbt.server.autostart=false -Dsbt.log.noformat=true -Dsbt.supershell=false \
  -Dnccl4j.version="$VERSION" -Dnccl4j.repository="$REPO" -jar launcher/sbt-launch-$sbt.jar run >log 2>&1 </dev/null ||
  { cat log; exit 1; }
sed -n 's/.*\(all-reduce of .*\)/\1/p' log | tail -n 1 | grep .
