/** The nvls transport. */
module org.nccl4j.transport.nvls {
  requires org.nccl4j.api;
}
