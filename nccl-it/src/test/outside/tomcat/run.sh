#!/usr/bin/env bash
# A web application with nccl4j in its lib folder, redeployed ten times in one Tomcat.
set -euo pipefail
here=$(dirname "$0")
cp "$here/pom.xml" .
mkdir -p src/main/java/org/example/web web/WEB-INF server temporary
cp "$here/SumServlet.java" src/main/java/org/example/web
$MVN package -Dnccl4j.version="$VERSION"
cp "$here/web.xml" web/WEB-INF
cp -r target/classes web/WEB-INF/classes
cp -r target/dependency web/WEB-INF/lib
$MVN org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath \
  -Dnccl4j.version="$VERSION" -DincludeScope=provided -Dmdep.outputFile=jars \
  -DincludeGroupIds=org.apache.tomcat.embed,org.apache.tomcat
jars=$(cat jars)
javac -cp "$jars" -d server "$here/Server.java"
# The heap is touched at once, so that the rest of the memory can be compared.
java -Xms128m -Xmx128m -XX:+AlwaysPreTouch -Djava.io.tmpdir=temporary -cp "server:$jars" Server web
