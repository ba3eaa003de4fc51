package org.nccl4j.it.nvls;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import org.nccl4j.api.Devices;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.NetEgress;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.api.spi.PxnTransport;
import org.nccl4j.api.spi.Transport;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.Device;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.transport.net.NetTransportProvider;
import org.nccl4j.transport.net.ib.IbProvider;
import org.nccl4j.transport.net.socket.SocketNetProvider;

/**
 * A program of three ranks on GPUs: rank 0 sends to rank 2, on another host, by the card beside
 * rank 1's GPU, and rank 2 sends to rank 0 by its own. Threads play the kernels.
 */
final class RelayedSlots {
  private static final Executor THREADS = task -> new Thread(task).start();
  private static final int STEPS = 300;

  private final List<Transport> transports = new ArrayList<>();
  private final List<PeerInfo> peers = new ArrayList<>();
  private ConnectionLayout layout;
  private volatile boolean over;

  /** Argument: "cards", of which all or only so many dma-bufs work, "ports", or "sockets". */
  public static void main(String[] arguments) throws Exception {
    boolean cards = !arguments[0].equals("sockets");
    FakeCards fake = cards ? FakeCards.load() : null;
    if (arguments.length > 1) {
      fake.fake_fail("ibv_reg_dmabuf_mr", FakeCards.NOT_SUPPORTED, Integer.parseInt(arguments[1]));
    }
    if (arguments[0].equals("ports")) {
      fake.fake_set_ports(0, 2);
    }
    new RelayedSlots().run(cards ? new IbProvider() : new SocketNetProvider());
    if (cards) {
      System.out.println("left " + fake.fake_live());
      System.out.printf(
          "queue pairs of ports: %d, %d%n",
          fake.calls("init pkey=0 port=1"), fake.calls("init pkey=0 port=2"));
    }
  }

  private void run(NetProvider net) throws Exception {
    List<? extends Device> devices = Devices.cuda().list();
    for (int rank = 0; rank < 3; rank++) {
      peers.add(
          new PeerInfo(
              rank,
              "host" + rank / 2,
              "",
              "process" + rank,
              0,
              Device.Kind.CUDA,
              "gpu" + rank % 2,
              List.of(net.name())));
    }
    for (int rank = 0; rank < 3; rank++) {
      NetEgress way = new NetEgress(1, List.of("roce0:1", "lo"));
      Map<Integer, NetEgress> egress = rank == 0 ? Map.of(2, way) : Map.of();
      Map<Integer, NetEgress> comes = rank == 2 ? Map.of(0, way) : Map.of();
      TransportContext context =
          new SlotContext(rank, peers, devices.get(rank % 2), net, egress, comes);
      transports.add(new NetTransportProvider().open(context));
    }
    System.out.println("to 2: " + transports.get(0).canConnect(peers.get(2)).reason());
    Connector there = transports.get(0).sender(peers.get(2));
    Connector comes = transports.get(0).receiver(peers.get(2));
    Connector back = transports.get(2).sender(peers.get(0));
    Connector gets = transports.get(2).receiver(peers.get(0));
    PxnTransport asks = (PxnTransport) transports.get(0);
    SlotKernel.require(asks.relay(there).orElse(-1) == 1, "rank 1 carries it");
    PxnTransport carries = (PxnTransport) transports.get(1);
    Connector relay = carries.relay(peers.get(0), peers.get(2), there.handle());
    boolean connected = false;
    while (!connected) {
      connected =
          there.connect(gets.handle())
              & relay.connect(gets.handle())
              & gets.connect(there.handle())
              & back.connect(comes.handle())
              & comes.connect(back.handle());
    }
    layout = ((KernelDevice) devices.get(0)).connectionLayout(2);
    List<ProxyHandler> proxies = new ArrayList<>();
    List.of(there, comes, back, gets, relay).forEach(end -> proxies.add(end.proxy().get()));
    List<CompletableFuture<?>> kernels = new ArrayList<>();
    int channels = there.connection().carried();
    for (int channel = 0; channel < channels; channel++) {
      for (boolean fills : new boolean[] {true, false}) {
        kernels.add(kernel(there, gets, channel, 0, fills));
        kernels.add(kernel(back, comes, channel, 2, fills));
      }
    }
    CompletableFuture<?> all =
        CompletableFuture.allOf(kernels.toArray(CompletableFuture<?>[]::new));
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(SlotKernel.PATIENCE_SECONDS);
    while (!all.isDone() || proxies.stream().anyMatch(ProxyHandler::isUnderWay)) {
      proxies.forEach(ProxyHandler::doWork);
      SlotKernel.require(System.nanoTime() - end < 0, "it does not end");
    }
    all.get();
    for (int rank = 0; rank < 3; rank++) {
      System.out.println("rank " + rank + " holds " + transports.get(rank).memoryBytes());
    }
    transports.forEach(Transport::close);
    System.out.println("carried " + channels + " channels");
  }

  private CompletableFuture<?> kernel(
      Connector sends, Connector receives, int channel, int seed, boolean fills) {
    Connection one = (fills ? sends : receives).connection();
    Connection other = (fills ? receives : sends).connection();
    SlotKernel kernel = new SlotKernel(layout, one, other, channel, seed, () -> over);
    return CompletableFuture.runAsync(
        () -> {
          if (fills) {
            kernel.fill(STEPS);
          } else {
            kernel.empty(STEPS);
          }
        },
        THREADS);
  }
}
