/**
 * The machine as a graph: topology files, detection, paths, search and the cost model. Needs
 * nothing but the JDK.
 */
module org.nccl4j.topo {
  exports org.nccl4j.topo;
  exports org.nccl4j.topo.cluster;
  exports org.nccl4j.topo.connect;
  exports org.nccl4j.topo.detect;
  exports org.nccl4j.topo.path;
  exports org.nccl4j.topo.report;
  exports org.nccl4j.topo.search;
  exports org.nccl4j.topo.simulate;
  exports org.nccl4j.topo.system;
  exports org.nccl4j.topo.tuning;
  exports org.nccl4j.topo.xml;
}
