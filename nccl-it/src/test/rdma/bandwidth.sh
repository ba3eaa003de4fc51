#!/usr/bin/env bash
# bandwidth.sh KERNEL [BYTES...]: messages of each size from one process to another in the RDMA guest,
# by the InfiniBand network and by ib_write_bw, three times in turn, 8 under way. Prints MB/s and the
# ratio of the medians. Build first: mvn package -DskipTests. Needs the package perftest.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
kernel=$(realpath "$1")
shift
target=$(cd "$here/../../../target" && pwd)
jar=$(ls "$target"/nccl-it-*.jar | head -n 1)
[ $# -gt 0 ] || set -- 65536 1048576 8388608
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/measure" <<END
java="java -Xmx256m -XX:+UseSerialGC -XX:-UsePerfData -p $jar:$target/modules
  --patch-module org.nccl4j.it=$target/test-classes -m org.nccl4j.it/org.nccl4j.it.rdma.NetBandwidth"
now() { date +%s%N; }
ours() {
  rm -f handle
  \$java receive handle \$1 \$2 8 &
  \$java send handle \$1 \$2 8
  wait \$!
}
# Its own clock does not work in the guest: the time of 3n messages less that of n.
perftest() {
  ib_write_bw -F -d rxe0 -x 1 -s \$1 -n \$2 -t 8 >/dev/null 2>&1 &
  sleep 0.5
  begin=\$(now)
  ib_write_bw -F -d rxe0 -x 1 -s \$1 -n \$2 -t 8 127.0.0.1 >/dev/null 2>&1
  end=\$(now)
  wait \$!
  took=\$(((end - begin) / 1000))
}
theirs() {
  perftest \$1 \$2; short=\$took
  perftest \$1 \$((3 * \$2)); long=\$took
  echo \$1 \$2 \$short \$long | awk '{printf "%.1f\n", 2 * \$1 * \$2 / (\$4 - \$3)}'
}
export NCCL_IB_HCA==rxe0
for bytes in $*; do
  n=\$((134217728 / bytes))
  for round in 1 2 3; do
    echo "\$bytes \$(ours \$bytes \$((2 * n))) \$(theirs \$bytes \$n)"
  done
done
END
"$here/guest.sh" "$kernel" "$folder" 600 'bash measure' | tee "$folder/figures" >&2
sort -n -k1,1 -k2,2 "$folder/figures" | awk '{o[$1] = o[$1] " " $2} END {for (b in o) print b, o[b]}' |
  sort -n >"$folder/ours"
sort -n -k1,1 -k3,3 "$folder/figures" | awk '{t[$1] = t[$1] " " $3} END {for (b in t) print b, t[b]}' |
  sort -n >"$folder/theirs"
echo "bytes, nccl4j MB/s, ib_write_bw MB/s, ratio (medians of 3)"
join "$folder/ours" "$folder/theirs" | awk '{printf "%d %.0f %.0f %.2f\n", $1, $3, $6, $3 / $6}'
