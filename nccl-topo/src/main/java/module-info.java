/**
 * The machine as a graph: topology files, detection, paths, search and the cost model. Needs
 * nothing but the JDK.
 */
module org.nccl4j.topo {
  exports org.nccl4j.topo;
  exports org.nccl4j.topo.xml;
  exports org.nccl4j.topo.system;
  exports org.nccl4j.topo.path;
}
