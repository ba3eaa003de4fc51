#!/usr/bin/env bash
# A Gradle project. GRADLE in the environment: the command, if it is not in PATH.
set -euo pipefail
here=$(dirname "$0")
gradle=${GRADLE:-$(command -v gradle || true)}
[ -n "$gradle" ] || { echo "there is no gradle in PATH, and GRADLE is not set"; exit 77; }
cp "$here/settings.gradle" "$here/build.gradle" .
mkdir -p src/main/java
cp -r "$here/../program/." src/main/java
"$gradle" --no-daemon --console=plain -q -g "$WORK/home" "-Dmaven.repo.local=$REPO" "-Pnccl4jVersion=$VERSION" run
