package org.nccl4j.transport.p2p;

import org.nccl4j.api.spi.Transport;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.api.spi.TransportProvider;
import org.nccl4j.device.cuda.CudaDevice;

/**
 * P2P: ranks use each other's memory by loads and stores: on the host those of one process, by its
 * address; on GPUs those of one machine, by address in a process and by file descriptor between
 * processes, or by CUDA IPC where a driver cannot do that or NCCL_CUMEM_ENABLE=0 forbids it; those
 * of one clique of multi-node NVLink by fabric handle, also between hosts. NCCL_P2P_DISABLE=1
 * switches it off.
 */
public final class P2pProvider implements TransportProvider {
  /** Called by {@link java.util.ServiceLoader}. */
  public P2pProvider() {}

  @Override
  public String name() {
    return "P2P";
  }

  @Override
  public int priority() {
    return 300;
  }

  @Override
  public boolean sharesMemory() {
    return true;
  }

  @Override
  public Transport open(TransportContext context) {
    int nRanks = context.peers().size();
    if (context.device() instanceof CudaDevice device) {
      ArenaLayout layout = ArenaLayout.committed(context.layout(), context.peers());
      return new ArenaTransport(
          name(),
          context,
          layout,
          peer -> PeerReachability.betweenGpus(context, device, peer),
          new CudaExchange(context, device, layout.bytes()));
    }
    ArenaLayout layout = ArenaLayout.of(context.layout(), nRanks);
    return new ArenaTransport(
        name(),
        context,
        layout,
        peer -> PeerReachability.inProcess(context, peer),
        new LocalExchange(layout.bytes()));
  }
}
