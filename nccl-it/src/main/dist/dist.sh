#!/bin/sh
# Packs nccl4j with a Java runtime and the tests that need GPUs, for machines that have neither
# Java nor Maven. Called by `nccl dist` after a build with tests.
#   dist.sh ROOT JAVA_HOME ARCHIVE
set -eu
root=$1
home=$2
archive=$3
most=40 # MB of the archive

fail() {
  printf 'nccl: %s\n' "$1" >&2
  printf '  remedy: %s\n' "$2" >&2
  exit 1
}

# What our modules, JUnit and `nccl trace` need of the JDK.
modules=java.base,java.logging,java.management,jdk.management,jdk.unsupported,jdk.jfr,jdk.httpserver,jdk.jcmd

[ -d "$home/jmods" ] || fail "$home has no jmods, from which a runtime is made" \
  "set JAVA_HOME to a whole JDK (apt-get install openjdk-17-jdk-headless)"
# The elliptic curves of TLS, which newer JDKs have in java.base.
[ ! -f "$home/jmods/jdk.crypto.ec.jmod" ] || modules=$modules,jdk.crypto.ec
case $archive in
  /*) ;;
  *) archive=$PWD/$archive ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
top=$work/nccl4j
mkdir -p "$top/tests/classes"
# Not compressed, since the archive is.
"$home/bin/jlink" --add-modules "$modules" --no-header-files --no-man-pages --compress=0 \
  --strip-java-debug-attributes --output "$top/jre"
if command -v strip > /dev/null; then
  find "$top/jre/lib" -name '*.so' -exec strip --strip-unneeded {} + 2> /dev/null || true
fi
# The archive of the JDK's classes, with which a JVM starts in a third of the time. G1 alone archives
# objects as well; the other collectors load them. They fit a heap of libnccl.so.2's size as they are.
"$top/jre/bin/java" -Xshare:dump -XX:+UseG1GC -Xmx512m > "$work/share.log" 2>&1 ||
  fail "the new runtime cannot archive its classes: $(tail -n 1 "$work/share.log")" \
    "see that this machine runs the JDK in $home"
cp -r "$root/nccl-it/target/modules" "$top/modules"
cp "$root"/nccl-it/target/nccl-it-*.jar "$top/modules"
rm -f "$top/modules/"*-tests.jar
# Of JCuda's native libraries the driver's alone is used, an eighth of them; of jffi's this system's.
unused() {
  case $1 in
    */jcuda-natives-*) echo lib '*/libJCudaDriver-*' ;;
    */jffi-*-native*) echo jni '*/x86_64-Linux/*' ;;
  esac
}
# Files lie in the jars as they are: the archive compresses them together, which saves a tenth of it.
repack() {
  mkdir "$work/jar"
  (
    cd "$work/jar"
    "$home/bin/jar" xf "$1"
    set -f
    # shellcheck disable=SC2046 # a folder, and the pattern of what stays of it
    set -- "$1" $(unused "$1")
    [ $# = 1 ] || find "$2" -type f ! -path "$3" -delete
  )
  rm "$1"
  "$home/bin/jar" c0fM "$1" -C "$work/jar" .
  rm -r "$work/jar"
}
# Calls that a JVM links in Java code become calls of methods: a creation would link 700 of them.
libraries=
for jar in "$top"/modules/asm-*.jar; do
  libraries=$libraries${libraries:+:}$jar
done
"$home/bin/java" -cp "$libraries" "$root/nccl-it/src/main/dist/DynamicCalls.java" "$top"/modules/nccl-*.jar
cp "$root/nccl" "$root/nccl-it/src/main/dist/gpu-tests" "$root/LICENSE" "$top"
cp "$root/nccl-it/src/main/dist/THIRD-PARTY.txt" "$top"
if [ -f "$root/nccl-it/target/lib/libnccl.so.2" ]; then
  cp "$root/nccl-it/src/main/dist/abi-tests" "$top"
  mkdir -p "$top/lib" "$top/tests/abi"
  cp "$root/nccl-it/target/lib/libnccl.so.2" "$top/lib"
  cp "$root"/nccl-it/src/test/abi/* "$top/tests/abi"
else
  printf 'nccl: the archive has no libnccl.so.2, since the build had no gcc\n' >&2
fi
cp "$root"/nccl-it/target/console/*.jar "$top/tests"
# True if THIRD-PARTY.txt tells the licence of a jar.
licensed() {
  while read -r name _; do
    case $1 in "$name"-*) return 0 ;; esac
  done << NAMES
nccl
$(sed -n 's/^  \([a-z][a-z0-9-]*\)  .*/\1/p' "$top/THIRD-PARTY.txt")
NAMES
  return 1
}
for jar in "$top"/modules/*.jar "$top"/tests/*.jar; do
  licensed "$(basename "$jar")" || fail "$(basename "$jar") has no licence in THIRD-PARTY.txt" \
    "add its name, licence and copyright to nccl-it/src/main/dist/THIRD-PARTY.txt"
  repack "$jar"
done
for module in nccl-device nccl-transport-p2p nccl-it; do
  [ -d "$root/$module/target/test-classes" ] || fail "$module's tests are not compiled" \
    "run ./nccl dist, which compiles them"
  cp -r "$root/$module/target/test-classes/." "$top/tests/classes"
done
# Topologies of usual machines, for `nccl plan`.
mkdir "$top/machines"
cp "$root"/nccl-topo/src/test/resources/org/nccl4j/topo/machines/*.xml "$top/machines"
# The pages that help and errors name.
mkdir -p "$top/docs"
cp -r "$root/docs/guides" "$root/docs/reference" "$root/docs/concepts" "$top/docs"
# The tutorial's programs for GPUs, compiled, since the runtime has no compiler.
for page in "$top"/docs/guides/tutorial/8-*.md "$top"/docs/guides/tutorial/9-*.md; do
  name=$(basename "$page")
  program=$work/Step${name%%-*}.java
  awk '/^```java/ { on = 1; next } /^```/ && on { exit } on' "$page" > "$program"
  "$home/bin/javac" -nowarn -proc:none -d "$top/tests/classes" -cp "$top/modules/*" "$program"
done
# Runs a program for NCCL with the library, and keeps the list of the classes that its JVMs load.
load_classes() {
  LD_LIBRARY_PATH=$work/run:$top/lib NCCL_JAVA_OPTIONS=-XX:DumpLoadedClassList=$work/run/%p.classes "$@" \
    > "$work/run/log" 2>&1 || fail "$1 has failed: $(tail -n 1 "$work/run/log")" "see that this machine runs it"
}
programs=$root/nccl-it/src/test/c/abi
include=/usr/local/cuda/include
[ -r "$include/cuda.h" ] ||
  include=$(dirname "$(readlink -f "$(command -v "${NVCC:-nvcc}" || echo /usr/bin/nvcc)")")/../include
compile() {
  gcc -O1 -I"$include" -o "$@" -L"$top/lib" -l:libnccl.so.2 -ldl -lpthread
}
# The classes, lambda expressions and method handles of the JDK that creations load: of one rank, and of two
# that are processes or threads, on GPUs of the tests' driver, or without cuda.h on the host. And those of
# all creations on GPUs.
list_classes() {
  mkdir "$work/run"
  if [ -r "$include/cuda.h" ]; then
    gcc -shared -fPIC -I"$include" -Wl,-soname,libcuda.so.1 -o "$work/run/libcuda.so.1" \
      "$root/nccl-device/src/test/c/fakecuda.c"
    compile "$work/run/gpu" "$programs/gpu.c" -L"$work/run" -l:libcuda.so.1
    load_classes "$work/run/gpu"
  else
    export NCCL4J_DEVICE=host
  fi
  load_classes "$top/tests/abi/calls" 1
  load_classes "$top/tests/abi/calls" 2
  unset NCCL4J_DEVICE
  for jar in "$top"/modules/nccl-*.jar; do
    "$home/bin/jar" tf "$jar"
  done | sed -n 's/\.class$//p' > "$work/run/ours"
  # Newer JDKs number the classes of a list, each run in its own way.
  {
    sed '/^#/d; /source:/d; s/ id: [0-9]*$//' "$work"/run/*.classes "$top/jre/lib/classlist"
    awk 'NR == FNR { gsub(/\./, "/"); listed[$0]; next }
      { owner = $0; sub(/\$\$Lambda.*/, "", owner) }
      owner in listed' "$root/nccl-api/src/main/resources/META-INF/nccl4j/creation.classes" "$work/run/ours"
  } | LC_ALL=C sort -u
}
if [ -d "$top/lib" ]; then
  # Machines with GPUs often have no compiler.
  for program in every wrong gpu_guest calls bursts; do
    compile "$top/tests/abi/$program" "$programs/$program.c"
  done
  list_classes > "$top/lib/nccl4j.classes"
  # They can be archived where the archive is unpacked.
  "$top/nccl" with true
  [ -f "$top/lib/nccl4j.jsa" ] || fail "nccl with has not archived the classes" \
    "look at the output: $(cat "$top/lib/nccl4j.jsa.log")"
  rm -f "$top"/lib/nccl4j.jsa*
fi
mkdir -p "$(dirname "$archive")"
tar -C "$work" --sort=name --owner=0 --group=0 --mtime=@0 -c nccl4j | gzip -9n > "$archive"
size=$(($(wc -c < "$archive") / 100000))
printf '%s: %d.%d MB\n' "$archive" $((size / 10)) $((size % 10))
[ "$size" -lt $((most * 10)) ] || fail "$archive has $most MB or more, too many to be carried around" \
  "look at what grew: tar tvzf $archive | sort -k3n | tail"
printf 'elsewhere: tar xzf %s && nccl4j/nccl doctor\n' "$(basename "$archive")"
