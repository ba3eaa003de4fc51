/** The net transport. */
module org.nccl4j.transport.net {
  requires org.nccl4j.api;
}
