// run.sh names the local repository that has the artifacts; released ones are on Maven Central.
val nccl4jVersion = sys.props("nccl4j.version")

lazy val root = (project in file("."))
  .settings(
    name := "sum",
    // Java alone: no Scala library.
    autoScalaLibrary := false,
    crossPaths := false,
    resolvers := Seq("nccl4j" at new File(sys.props("nccl4j.repository")).toURI.toString),
    libraryDependencies ++= Seq(
      "org.nccl4j" % "nccl-api" % nccl4jVersion,
      "org.nccl4j" % "nccl-transport-p2p" % nccl4jVersion % Runtime
    ),
    Compile / run / fork := true,
    Compile / mainClass := Some("org.example.sum.Sum")
  )
