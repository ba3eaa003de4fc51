import org.nccl4j.transport.nvls.NvlsProvider;

/** NVLink SHARP: memory of all ranks of a machine that is combined and written as one. */
module org.nccl4j.transport.nvls {
  requires transitive org.nccl4j.api;

  exports org.nccl4j.transport.nvls to
      org.nccl4j.it;

  provides org.nccl4j.api.multicast.MulticastProvider with
      NvlsProvider;
}
