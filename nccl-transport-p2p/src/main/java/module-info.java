/** The p2p transport. */
module org.nccl4j.transport.p2p {
  requires org.nccl4j.api;
}
