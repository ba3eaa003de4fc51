import org.nccl4j.transport.net.ib.IbProvider;

/** The networks that connect ranks of different hosts. */
module org.nccl4j.transport.net {
  requires transitive org.nccl4j.api;
  requires org.jnrproject.ffi;
  requires org.jnrproject.jffi;
  requires org.objectweb.asm;

  exports org.nccl4j.transport.net.ib.bind;

  provides org.nccl4j.api.spi.NetProvider with
      IbProvider;
}
