#!/usr/bin/env bash
# What the flight recorder and JFR cost: in each of some JVMs, one after the other. From the root, after mvn package:
# docs/benchmarks/recorder-cost.sh JVMS threads|processes BYTES OPERATIONS FOURS OPERATIONS_WITH_JFR FOURS_WITH_JFR
set -euo pipefail
cd "$(dirname "$0")/../.."
classes=$(echo nccl-*/target/classes | tr ' ' ':'):$(ls nccl-it/target/modules/*.jar | grep -v '/nccl-[^/]*$' | tr '\n' ':')
variant=$(mktemp -d)
trap 'rm -rf "$variant"' EXIT
# All that there is on an operation's way for recorders alone, behind a switch.
cat > "$variant/Switch.java" <<END
package org.nccl4j.device;
public final class Switch { public static boolean on = true; }
END
# PART=links: the count of the bytes sent to each rank instead.
if [ "${PART:-}" = links ]; then
  end=nccl-device/src/main/java/org/nccl4j/device/host/kernel/protocol/SendEnd.java
  sed -e 's/^    \(SENT\.setOpaque(\)/    if (org.nccl4j.device.Switch.on) \1/' $end > "$variant/SendEnd.java"
  test "$(grep -c 'if (org.nccl4j.device.Switch.on)' "$variant/SendEnd.java")" = 1
elif [ "${PART:-}" = operations ]; then
  # PART=operations: all operations told to a recording as that of nccl trace, by turns with none.
  launcher=nccl-api/src/main/java/org/nccl4j/api/launch/Launcher.java
  sed -e 's/^    if (hooks\.areAny())/    if (org.nccl4j.device.Switch.on \&\& hooks.areAny())/' \
    -e 's/^    if (hooks\.tells())/    if (org.nccl4j.device.Switch.on \&\& hooks.tells())/' $launcher > "$variant/Launcher.java"
  test "$(grep -c 'org.nccl4j.device.Switch.on &&' "$variant/Launcher.java")" = 3
else
  launcher=nccl-api/src/main/java/org/nccl4j/api/launch/Launcher.java
  sed -e 's/^    \(log\.collective(\|if (hooks\.areAny())\)/    if (org.nccl4j.device.Switch.on) \1/' \
    -e 's/^    if (hooks\.tells())/    if (org.nccl4j.device.Switch.on \&\& hooks.tells())/' $launcher > "$variant/Launcher.java"
  test "$(grep -c 'org.nccl4j.device.Switch.on' "$variant/Launcher.java")" = 5
fi
javac -nowarn -proc:none -d "$variant" -cp "$classes" "$variant"/*.java docs/benchmarks/RecorderCost.java
for ((jvm = 0; jvm < $1; jvm++)); do
  java -cp "$variant:$classes" RecorderCost "${@:2}"
done
