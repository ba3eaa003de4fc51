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

  exports org.nccl4j.transport.net;
  exports org.nccl4j.transport.net.ib;
  exports org.nccl4j.transport.net.ib.bind;
  exports org.nccl4j.transport.net.plugin;
  exports org.nccl4j.transport.net.socket;

  provides org.nccl4j.api.spi.NetProvider with
      IbProvider,
      PluginNetProvider,
      SocketNetProvider;
  provides org.nccl4j.api.spi.TransportProvider with
      NetTransportProvider;
}
