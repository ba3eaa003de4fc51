#!/usr/bin/env bash
# A Gradle project. GRADLE in the environment: the command, if it is not in PATH.
set -euo pipefail
here=$(dirname "$0")
gradle=${GRADLE:-$(command -v gradle || true)}
[ -n "$gradle" ] || { echo "there is no gradle in PATH, and GRADLE is not set"; exit 77; }
cp "$here/settings.gradle" .
version=$("$gradle" --version | sed -n 's/^Gradle \([0-9]*\).*/\1/p')
if [ "$version" -lt 5 ]; then cp "$here/gradle-4.gradle" build.gradle; else cp "$here/build.gradle" .; fi
mkdir -p src/main/java
cp -r "$here/../program/." src/main/java
"$gradle" --no-daemon --console=plain -q -g "$WORK/home" "-Dmaven.repo.local=$REPO" "-Pnccl4jVersion=$VERSION" run
