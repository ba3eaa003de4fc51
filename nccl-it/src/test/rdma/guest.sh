#!/usr/bin/env bash
# guest.sh KERNEL FOLDER SECONDS COMMAND...: boots KERNEL (see build-kernel.sh) and runs the shell
# COMMAND in it, in FOLDER, which alone it can change for good: the rest of the machine's files are
# seen read-only, and changes in /tmp are lost. In it are three RDMA devices of
# MTU 4096, Soft-RoCE: rxe0 over lo with the address 127.0.0.1, and rxe1 and rxe2 with the addresses
# 10.99.0.1 and 10.99.0.2, the Ethernets ve0 and ve1 at ports sw0 and sw1 of a switch. Output goes to standard
# output; ends with the command's status, 124 after SECONDS, 125 if the guest broke.
# $GUEST_MEMORY: megabytes, 3072 if not set. $GUEST_CPU: the one processor it runs on, 0 if not set.
set -euo pipefail
[ $# -ge 4 ] || { sed -n '2,9s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
kernel=$(realpath "$1")
folder=$(realpath "$2")
seconds=$3
shift 3
run=$(mktemp -d "$folder/guest.XXXXXX")
output=
trap '[ -z "$output" ] || kill "$output" 2>/dev/null || true; rm -rf "$run"' EXIT
printf '%s\n' "$*" >"$run/command"
: >"$run/output"
# --pid ends tail by itself when this script has gone, however it ended.
tail -n +1 -s 0.1 --pid=$$ -f "$run/output" &
output=$!
# The guest's memory is a file in TMPDIR, which has to be in memory and allow programs.
status=0
TMPDIR=/dev/shm taskset -c "${GUEST_CPU:-0}" timeout -k 5 "$seconds" "$kernel" \
  "mem=${GUEST_MEMORY:-3072}M" root=/dev/root rootfstype=hostfs rootflags=/ ro \
  "init=$here/guest-init.sh" "guest.run=$run" "guest.folder=$folder" \
  quiet "umid=nccl4j-$$" "uml_dir=$run" con=null con0=null,fd:1 \
  </dev/null >"$run/console" 2>&1 || status=$?
sleep 0.3
if [ -f "$run/status" ]; then
  exit "$(cat "$run/status")"
fi
[ "$status" != 124 ] || { echo "guest.sh: not done within $seconds s" >&2; exit 124; }
{ echo "guest.sh: the guest ended without a result ($status); its console:"; tail -n 40 "$run/console"; } >&2
exit 125
