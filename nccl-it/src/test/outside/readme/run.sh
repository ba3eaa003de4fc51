#!/usr/bin/env bash
# What README tells a new user: its pom.xml and its program in an empty folder, its command; then the
# class path of docs/guides/launchers.md.
set -euo pipefail
# The first block of a language.
block() {
  awk -v "begin=\`\`\`$1" '$0 == begin && !seen { inside = seen = 1; next } /^```/ { inside = 0 } inside' "$ROOT/README.md"
}
mkdir -p src/main/java
block xml >pom.xml
block java >src/main/java/Hello.java
command=$(sed -n 's/^ *mvn -q \(compile exec:java.*\)/\1/p' "$ROOT/README.md")
[ -n "$command" ]
# shellcheck disable=SC2086 # a command of several words
$MVN $command >output || { cat output; exit 1; }
grep -qx 42.0 <(sed 's/\x1b\[[0-9;]*m//g' output) || { cat output; exit 1; }
grep -q 'mvn -q package dependency:copy-dependencies' "$ROOT/docs/guides/launchers.md"
$MVN package dependency:copy-dependencies >log 2>&1 || { cat log; exit 1; }
[ "$(java -cp 'target/classes:target/dependency/*' Hello)" = 42.0 ]
echo "README's program in README's project: 42.0"
