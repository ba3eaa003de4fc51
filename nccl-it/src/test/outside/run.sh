#!/usr/bin/env bash
# Uses the artifacts as other people's projects do: installs them into a fresh repository, then runs
# each project, which makes a checked all-reduce.
#   run.sh [NAME ...]     all projects, or those named
# NAME/run.sh gets, in its environment,
#   ROOT      the root of this repository
#   REPO      a local Maven repository with the artifacts
#   VERSION   their version
#   MVN       a Maven command that uses that repository
#   WORK      an empty folder, the working directory, for all that it writes
# and prints what it checked. Status 77: the project cannot run here; its output says why.
# REPO in the environment: a repository that has the artifacts already; nothing is installed then.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd -P)
ROOT=$(cd "$here/../../../.." && pwd -P)
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
VERSION=$(sed -n 's|.*<version>\(.*\)</version>.*|\1|p' "$ROOT/pom.xml" | head -n 1)
if [ -z "${REPO:-}" ]; then
  REPO=$top/repository
  mkdir "$REPO"
  own=${MAVEN_REPOSITORY:-$HOME/.m2/repository}
  # What was downloaded before need not be downloaded again.
  if [ -d "$own" ]; then
    cp -al "$own/." "$REPO" 2>/dev/null || cp -a "$own/." "$REPO"
    rm -rf "$REPO/org/nccl4j"
  fi
  echo "outside: installing nccl4j $VERSION"
  (cd "$ROOT" && mvn -B -q -Dmaven.repo.local="$REPO" -Dmaven.test.skip=true install)
fi
MVN="mvn -B -q -Dstyle.color=never -Dmaven.repo.local=$REPO"
export ROOT REPO VERSION MVN
if [ $# = 0 ]; then
  for project in "$here"/*/run.sh; do
    set -- "$@" "$(basename "$(dirname "$project")")"
  done
fi
# The last line of a project's output, without the colours of its tools.
last() { tail -n 1 "$top/output" | sed 's/\x1b\[[0-9;]*m//g'; }
failed=
for name in "$@"; do
  WORK=$top/$name
  export WORK
  mkdir "$WORK"
  status=0
  (cd "$WORK" && "$here/$name/run.sh") >"$top/output" 2>&1 || status=$?
  case $status in
    0) echo "outside: $name: $(last)" ;;
    77) echo "outside: $name: left out: $(last)" ;;
    *)
      cat "$top/output"
      echo "outside: $name: failed with status $status"
      failed="$failed $name"
      ;;
  esac
done
[ -z "$failed" ] || { echo "outside: failed:$failed" >&2; exit 1; }
