#!/usr/bin/env bash
# Memory of java.lang.foreign, on the newest Java of this machine.
set -euo pipefail
here=$(dirname "$0")
java=
for each in "${JAVA_HOME:-/none}/bin/java" /usr/lib/jvm/*/bin/java; do
  [ -x "$each" ] || continue
  version=$("$each" -XshowSettings:properties -version 2>&1 \
    | sed -n 's/.*java.specification.version = //p')
  case $version in 2[2-9] | [3-9]?) java=$each ;; esac
done
[ -n "$java" ] || { echo "java.lang.foreign needs Java 22, which is not in /usr/lib/jvm"; exit 77; }
cp "$here/pom.xml" .
$MVN package -Dnccl4j.version="$VERSION"
"$java" --enable-native-access=ALL-UNNAMED -cp "target/dependency/*" "$here/Segments.java"
