#!/usr/bin/env bash
# What the flight recorder and JFR cost. From the root, after mvn package: docs/benchmarks/recorder-cost.sh BYTES OPERATIONS ROUNDS
set -euo pipefail
cd "$(dirname "$0")/../.."
classes=$(echo nccl-*/target/classes | tr ' ' ':'):$(ls nccl-it/target/modules/*.jar | grep -v /nccl- | tr '\n' ':')
variant=$(mktemp -d)
trap 'rm -rf "$variant"' EXIT
sed -e 's/^    log\.note(/    if (recording) log.note(/' \
  -e 's/^    log\.launched();/    if (recording) log.launched();/' \
  -e 's/^public final class Launcher {/&\n  public static boolean recording = true;/' \
  nccl-api/src/main/java/org/nccl4j/api/launch/Launcher.java > "$variant/Launcher.java"
test "$(grep -c 'if (recording)' "$variant/Launcher.java")" = 2
javac -nowarn -d "$variant" -cp "$classes" "$variant/Launcher.java"
java -cp "$variant:$classes" docs/benchmarks/RecorderCost.java "$@"
