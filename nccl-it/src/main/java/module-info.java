/** The command line, and the integration tests of all modules together. */
module org.nccl4j.it {
  requires org.nccl4j.api;
  requires info.picocli;
  requires com.fasterxml.jackson.core;
  requires me.tongfei.progressbar;
}
