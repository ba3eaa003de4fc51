#!/usr/bin/env bash
# bandwidth.sh KERNEL [BYTES...]: messages of each size from one process to another in the RDMA guest,
# by the InfiniBand network, by announced.c, which does the same in C, and by ib_write_bw, in turn,
# $ROUNDS times (5), 8 under way. Prints the medians in MB/s and what the network reaches of the others.
# In the first two both ends sleep for $MICROS (200) between looks: the one processor has to move the data.
# Build first: mvn package -DskipTests. Needs the packages perftest, libibverbs-dev and gcc.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
kernel=$(realpath "$1")
shift
target=$(cd "$here/../../../target" && pwd)
jar=$(ls "$target"/nccl-it-*.jar | head -n 1)
[ $# -gt 0 ] || set -- 65536 1048576 8388608
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
gcc -O2 -o "$folder/announced" "$here/announced.c" -libverbs
cat >"$folder/measure" <<END
# One processor: the second compiler would share it with both ends.
java="java -Xmx256m -XX:+UseSerialGC -XX:-UsePerfData -XX:TieredStopAtLevel=1 -p $jar:$target/modules
  --patch-module org.nccl4j.it=$target/test-classes -m org.nccl4j.it/org.nccl4j.it.rdma.NetBandwidth"
now() { date +%s%N; }
ours() {
  rm -f handle
  \$java receive handle \$1 \$2 8 ${MICROS:-200} &
  \$java send handle \$1 \$2 8 ${MICROS:-200}
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
  for round in \$(seq ${ROUNDS:-5}); do
    echo "\$bytes \$(ours \$bytes \$((8 * n))) \$(./announced rxe0 \$bytes \$((8 * n)) 8 ${MICROS:-200})" \
      "\$(theirs \$bytes \$n)"
  done
done
END
"$here/guest.sh" "$kernel" "$folder" 600 'bash measure' | tee "$folder/figures" >&2
echo "bytes, nccl4j, in C, ib_write_bw (medians, MB/s), nccl4j / in C, nccl4j / ib_write_bw"
awk '
  function median(values, n, i, j, t) {
    for (i = 2; i <= n; i++)
      for (j = i; j > 1 && values[j - 1] > values[j]; j--) {
        t = values[j]; values[j] = values[j - 1]; values[j - 1] = t
      }
    return n % 2 ? values[(n + 1) / 2] : (values[n / 2] + values[n / 2 + 1]) / 2
  }
  function row(k, column, v, n) {
    n = 0
    for (r = 1; r <= count[k]; r++) v[++n] = all[k, column, r]
    return median(v, n)
  }
  !($1 in count) { order[++sizes] = $1 }
  { count[$1]++; for (c = 2; c <= 4; c++) all[$1, c, count[$1]] = $c + 0 }
  END {
    for (s = 1; s <= sizes; s++) {
      k = order[s]; a = row(k, 2); b = row(k, 3); c = row(k, 4)
      printf "%d %.0f %.0f %.0f %.2f %.2f\n", k, a, b, c, a / b, a / c
    }
  }' "$folder/figures"
