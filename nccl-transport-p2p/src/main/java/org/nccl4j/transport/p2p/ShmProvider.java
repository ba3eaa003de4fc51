package org.nccl4j.transport.p2p;

import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.Transport;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.api.spi.TransportProvider;
import org.nccl4j.device.cuda.CudaDevice;

/**
 * SHM: ranks of one machine and one user share memory, whose file descriptors they pass each other
 * over Unix sockets in /dev/shm. GPUs that cannot use each other's memory (P2P) go through such
 * memory too, pinned; ranks of one process as well.
 *
 * <p>NCCL_SHM_DISABLE=1 switches it off. NCCL4J_SHM says where the memory comes from: memfd, the
 * default, is bounded by nothing but the machine's or the container's memory; devshm is /dev/shm.
 */
public final class ShmProvider implements TransportProvider {
  /** Called by {@link java.util.ServiceLoader}. */
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
    int nRanks = context.peers().size();
    boolean gpu = context.device() instanceof CudaDevice;
    ArenaLayout layout =
        gpu
            ? ArenaLayout.committed(context.layout(), context.peers())
            : ArenaLayout.of(context.layout(), nRanks);
    SegmentSource source = SegmentSource.of(context.get(Settings.NCCL4J_SHM));
    ArenaExchange exchange =
        new ShmExchange(context.rank(), layout.bytes(), context.secret(), source);
    return new ArenaTransport(
        name(),
        context,
        layout,
        peer -> PeerReachability.onMachine(context, peer),
        gpu
            ? new PinnedExchange(exchange, (CudaDevice) context.device(), layout.bytes())
            : exchange);
  }
}
