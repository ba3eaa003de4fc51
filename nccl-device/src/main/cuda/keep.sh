#!/bin/sh
# Makes a file, or takes the one that the same command and compiler have made from the same source.
#   OUT=FOLDER KEPT=FOLDER keep.sh FILE SOURCE COMPILER ARGUMENT...
# A source is itself and all that it includes, without lines of comments. KEPT may be empty: nothing
# is kept then.
set -e
export LC_ALL=C # the order of files
file=$1
sources=$2
shift 2
if [ -z "$KEPT" ]; then exec "$@"; fi
found=
while [ "$sources" != "$found" ]; do
  found=$sources
  included=$(sed -n 's/^ *# *include "\(.*\)".*/\1/p' $found | while read -r name; do
    if [ -f "$name" ]; then echo "$name"; else echo "$OUT/$name"; fi
  done)
  sources=$(printf '%s\n' $found $included | sort -u)
done
kept=$KEPT/$(
  {
    echo "$*" | sed "s|$OUT|OUT|g"
    "$1" --version
    for source in $sources; do
      echo "${source##*/}"
      sed '/^ *\/\//d' "$source"
    done
  } | sha256sum | cut -c1-24
)
if cp "$kept" "$file" 2>/dev/null; then exit 0; fi
"$@"
if mkdir -p "$KEPT" 2>/dev/null && cp "$file" "$kept.$$" 2>/dev/null; then mv "$kept.$$" "$kept"; fi
