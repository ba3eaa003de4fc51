/** The command line, and the integration tests of all modules together. */
module org.nccl4j.it {
  requires transitive org.nccl4j.api;
  requires org.nccl4j.transport.net;
  requires org.nccl4j.transport.p2p;
  requires info.picocli;
  requires jdk.httpserver;
  requires jdk.jfr;
  requires jdk.management;
  requires com.fasterxml.jackson.core;
  requires me.tongfei.progressbar;
  requires java.logging;
  requires java.management;

  exports org.nccl4j.it.doctor.bind;
  exports org.nccl4j.it.perf.nccl.bind;
  exports org.nccl4j.it.perf.rank.bind;

  opens org.nccl4j.it.cli to
      info.picocli;
  opens org.nccl4j.it.perf to
      info.picocli;
  opens org.nccl4j.it.plan to
      info.picocli;
  opens org.nccl4j.it.run to
      info.picocli;
  opens org.nccl4j.it.doctor to
      info.picocli;
  opens org.nccl4j.it.top to
      info.picocli;
  opens org.nccl4j.it.topo to
      info.picocli;
  opens org.nccl4j.it.trace to
      info.picocli;
}
