#!/usr/bin/env bash
# Gradle 8 finds the jars by the artifacts' module metadata; a program of these jars makes an
# all-reduce. Gradle's command cannot be had from Maven Central, but its classes can: this is the
# resolution of a build, not a whole one.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd -P)
cp "$here/pom.xml" .
$MVN org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath -Dmdep.outputFile=gradle
# Version 0.0.1 of all artifacts, beside the installed one.
mkdir -p older/org
cp -r "$REPO/org/nccl4j" older/org
find older -name 'maven-metadata*' -delete
find older -depth -name "*$VERSION*" | while read -r path; do
  name=$(basename "$path")
  mv "$path" "$(dirname "$path")/${name//$VERSION/0.0.1}"
done
find older \( -name '*.module' -o -name '*.pom' \) -exec sed -i "s/$VERSION/0.0.1/g" {} +
mkdir project
java -Xmx512m --add-opens java.base/java.lang=ALL-UNNAMED --add-opens java.base/java.util=ALL-UNNAMED \
  "-Dmaven.repo.local=$REPO" -cp "$(cat gradle)" "$here/Resolution.java" project home older "$VERSION" >jars
mkdir classes
jars=$(paste -s -d : jars)
javac --release 17 -cp "$jars" -d classes $(find "$here/../program" -name '*.java')
java -cp "classes:$jars" org.example.sum.FindKernels
echo "Gradle 8: $(wc -l <jars) jars by module metadata, one version for all, Java 11 refused: $(java -cp "classes:$jars" org.example.sum.Sum)"
