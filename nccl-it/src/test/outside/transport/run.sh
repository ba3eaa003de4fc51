#!/usr/bin/env bash
# A transport of somebody else's (sample-transport): its tests with the testkit, then an all-reduce
# through it by the command line. Both know the installed artifacts alone.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd -P)
cp "$here/pom.xml" .
mkdir -p src/main/java src/main/resources/META-INF/services src/test/java/org/example/filetransport files
cp -r "$here/../../sample-transport/." src/main/java
echo org.example.filetransport.FileProvider >src/main/resources/META-INF/services/org.nccl4j.api.spi.TransportProvider
cp "$here/FileTransportTest.java" src/test/java/org/example/filetransport
$MVN package -Dnccl4j.version="$VERSION"
sed -n 's/^Tests run/contract: tests run/p' target/surefire-reports/*.txt
# The command line, as an archive has it: the script, a Java runtime, the modules.
mkdir command-line
cp "$here/command-line.xml" command-line/pom.xml
$MVN -f command-line/pom.xml package -Dnccl4j.version="$VERSION"
mv command-line/target/dependency command-line/modules
cp "$ROOT/nccl" command-line
java=$(readlink -f "$(command -v "${JAVA_HOME:+$JAVA_HOME/bin/}java")")
ln -s "$(dirname "$(dirname "$java")")" command-line/jre
for how in "-t 3" "--processes 3"; do
  # shellcheck disable=SC2086 # an option and its value
  NCCL4J_FILE_TRANSPORT_DIR=$WORK/files command-line/nccl perf all_reduce $how -b 8 -e 64K -f 8 -n 5 -w 1 \
    --class-path target/file-transport-1.jar --transport file >log 2>&1 || { cat log; exit 1; }
  grep -q "Out of bounds values : 0 OK" log || { cat log; exit 1; }
done
[ -z "$(ls files)" ] || { echo "files are left"; ls files; exit 1; }
echo "all-reduce of 3 ranks through the file transport: no wrong element, in one process and in three"
