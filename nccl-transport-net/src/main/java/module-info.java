import org.nccl4j.transport.net.NetTransportProvider;
import org.nccl4j.transport.net.ib.IbProvider;
import org.nccl4j.transport.net.plugin.PluginNetProvider;
import org.nccl4j.transport.net.socket.SocketNetProvider;

/** Connections between hosts: the NET transport and its networks. */
module org.nccl4j.transport.net {
  requires transitive org.nccl4j.api;
  requires jdk.jfr;
  requires org.jnrproject.ffi;
  requires org.jnrproject.jffi;
  requires org.objectweb.asm;

  exports org.nccl4j.transport.net to
      org.nccl4j.it;
  exports org.nccl4j.transport.net.ib to
      org.nccl4j.it;
  // The stubs that jnr-ffi makes live in an unnamed module, which no qualified export can name.
  exports org.nccl4j.transport.net.ib.bind;
  exports org.nccl4j.transport.net.plugin to
      org.nccl4j.it;
  // The test kit's networks with faults wrap its provider, from a class path too.
  exports org.nccl4j.transport.net.socket;

  provides org.nccl4j.api.spi.NetProvider with
      IbProvider,
      PluginNetProvider,
      SocketNetProvider;
  provides org.nccl4j.api.spi.TransportProvider with
      NetTransportProvider;
}
