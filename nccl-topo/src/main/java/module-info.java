/**
 * The machine as a graph: topology files, detection, paths, search and the cost model. Needs
 * nothing but the JDK.
 */
module org.nccl4j.topo {
  exports org.nccl4j.operation;
  exports org.nccl4j.topo;
  exports org.nccl4j.topo.cluster to
      org.nccl4j.api,
      org.nccl4j.it;
  exports org.nccl4j.topo.connect to
      org.nccl4j.api,
      org.nccl4j.it;
  exports org.nccl4j.topo.detect to
      org.nccl4j.api,
      org.nccl4j.it;
  exports org.nccl4j.topo.path to
      org.nccl4j.api,
      org.nccl4j.it;
  exports org.nccl4j.topo.report to
      org.nccl4j.it;
  exports org.nccl4j.topo.search to
      org.nccl4j.api,
      org.nccl4j.it;
  exports org.nccl4j.topo.simulate to
      org.nccl4j.it;
  exports org.nccl4j.topo.system to
      org.nccl4j.api,
      org.nccl4j.it;
  exports org.nccl4j.topo.tuning to
      org.nccl4j.api,
      org.nccl4j.it;
  exports org.nccl4j.topo.xml to
      org.nccl4j.api,
      org.nccl4j.it;
}
