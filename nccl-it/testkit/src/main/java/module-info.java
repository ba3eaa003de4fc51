/**
 * The checks that every transport, network, tuner and profiler must pass, and faults for them. Its
 * network is provided on the class path alone, where Surefire leaves modules that nobody requires.
 */
module org.nccl4j.testkit {
  requires transitive org.nccl4j.api;
  requires transitive com.tngtech.archunit;
  requires org.nccl4j.transport.net;
  requires java.management;
  requires jdk.management;

  exports org.nccl4j.testkit;
  exports org.nccl4j.testkit.faults;
  exports org.nccl4j.testkit.rules;
}
