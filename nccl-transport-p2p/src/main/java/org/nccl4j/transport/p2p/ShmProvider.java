package org.nccl4j.transport.p2p;

import org.nccl4j.api.spi.Transport;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.api.spi.TransportProvider;

/**
 * SHM: ranks of one machine and one user share memory, whose file descriptors they pass each other
 * over Unix sockets below java.io.tmpdir.
 *
 * <p>NCCL_SHM_DISABLE=1 switches it off. NCCL4J_SHM says where the memory comes from: memfd, the
 * default, is bounded by nothing but the machine's or the container's memory; devshm is /dev/shm.
 */
public final class ShmProvider implements TransportProvider {
  /** For {@link java.util.ServiceLoader}. */
  public ShmProvider() {}

  @Override
  public String name() {
    return "SHM";
  }

  @Override
  public int priority() {
    return 200;
  }

  @Override
  public Transport open(TransportContext context) {
    ArenaLayout layout = ArenaLayout.of(context.layout(), context.peers().size());
    SegmentSource source = SegmentSource.of(context.setting(SegmentSource.SETTING).orElse("memfd"));
    return new ArenaTransport(
        name(),
        context,
        layout,
        peer -> Reach.onMachine(context, peer),
        new ShmExchange(context.rank(), layout.bytes(), context.secret(), source));
  }
}
