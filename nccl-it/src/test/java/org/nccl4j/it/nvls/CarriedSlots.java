package org.nccl4j.it.nvls;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import org.nccl4j.api.Devices;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.api.spi.Support;
import org.nccl4j.api.spi.Transport;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.Device;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.testkit.faults.FaultyNetProvider;
import org.nccl4j.testkit.faults.FaultySockets;
import org.nccl4j.testkit.faults.NetFaults;
import org.nccl4j.transport.net.NetTransportProvider;
import org.nccl4j.transport.net.ib.IbProvider;
import org.nccl4j.transport.net.plugin.PluginNetProvider;
import org.nccl4j.transport.net.socket.SocketNetProvider;

/**
 * A program of two ranks on GPUs of two hosts, whose threads play the kernels on the pinned memory:
 * each channel fills and empties slots as the kernels do, by the words that lie beside them.
 */
final class CarriedSlots {
  private static final Executor THREADS = task -> new Thread(task).start();
  private static final int STEPS = 300;

  private final List<Transport> transports = new ArrayList<>();
  private final List<Turns> proxies = new ArrayList<>();
  private final Connector[] senders = new Connector[2];
  private final Connector[] receivers = new Connector[2];
  private final ConnectionLayout layout;
  private final int channels;

  /** True if kernels must end, as after an abort. */
  private volatile boolean over;

  /** Connects the two ranks, both ways. */
  private CarriedSlots(String network) {
    NetProvider provider = provider(network);
    List<PeerInfo> peers = SlotContext.peers(2, provider);
    List<? extends Device> devices = Devices.cuda().list();
    for (int rank = 0; rank < 2; rank++) {
      TransportContext context =
          new SlotContext(rank, peers, devices.get(rank), provider, Map.of(), Map.of());
      transports.add(new NetTransportProvider().open(context));
      Support support = transports.get(rank).canConnect(peers.get(1 - rank));
      SlotKernel.require(support.possible(), "no transport: %s", support.reason());
      System.out.println("rank " + rank + ": " + support.reason());
    }
    for (int rank = 0; rank < 2; rank++) {
      senders[rank] = transports.get(rank).sender(peers.get(1 - rank));
      receivers[rank] = transports.get(rank).receiver(peers.get(1 - rank));
    }
    boolean connected = false;
    while (!connected) {
      connected = true;
      for (int rank = 0; rank < 2; rank++) {
        connected &= senders[rank].connect(receivers[1 - rank].handle());
        connected &= receivers[rank].connect(senders[1 - rank].handle());
      }
    }
    layout = ((KernelDevice) devices.get(0)).connectionLayout(2);
    channels = senders[0].connection().carried();
    for (int rank = 0; rank < 2; rank++) {
      proxies.add(
          new Turns(senders[rank].proxy().orElseThrow(), receivers[rank].proxy().orElseThrow()));
      proxies.get(rank).start();
    }
  }

  private static NetProvider provider(String network) {
    NetProvider sockets = new SocketNetProvider();
    return switch (network) {
      case "slow" -> new FaultyNetProvider(sockets, NetFaults.slow(7));
      case "cards" -> new IbProvider();
      case "plugin" -> new PluginNetProvider();
      case "resets" -> new FaultySockets();
      default -> sockets;
    };
  }

  /** Gives one rank's proxies their turns, as the proxy thread does. */
  private static final class Turns extends Thread {
    private final ProxyHandler[] handlers;
    private final CompletableFuture<NcclException> failure = new CompletableFuture<>();
    private volatile boolean over;

    Turns(ProxyHandler... handlers) {
      this.handlers = handlers;
      setDaemon(true);
      for (ProxyHandler handler : handlers) {
        SlotKernel.require(handler.isPolled(), "kernels of a GPU give no turns");
      }
    }

    @Override
    public void run() {
      try {
        while (!over) {
          for (ProxyHandler handler : handlers) {
            handler.doWork();
          }
          Thread.yield();
        }
      } catch (NcclException e) {
        failure.complete(e);
      }
    }

    boolean isIdle() {
      return Arrays.stream(handlers).noneMatch(ProxyHandler::isUnderWay);
    }

    void end() throws InterruptedException {
      over = true;
      join();
    }
  }

  /**
   * Arguments: "exchange", over a "slow" network too, over sockets that break as the environment
   * says ("resets"), by the "plugin" that the environment names, or by "cards" that access the
   * GPUs' memory, or "death". Of cards: "ports", if there are two, or how many dma-bufs they take,
   * the two that ask whether they take any included.
   */
  public static void main(String[] arguments) throws Exception {
    FakeCards cards = arguments[0].equals("cards") ? FakeCards.load() : null;
    if (cards != null && arguments.length > 1 && arguments[1].equals("ports")) {
      cards.fake_set_ports(0, 2);
    } else if (cards != null && arguments.length > 1) {
      cards.fake_fail("ibv_reg_dmabuf_mr", FakeCards.NOT_SUPPORTED, Integer.parseInt(arguments[1]));
    }
    CarriedSlots ranks = new CarriedSlots(arguments[0]);
    if (arguments[0].equals("death")) {
      ranks.death();
    } else {
      ranks.exchange();
    }
    String via = ranks.senders[0].status().via();
    boolean inLines = ranks.senders[0].connection().lines();
    for (Turns proxy : ranks.proxies) {
      proxy.end();
    }
    System.out.println("device memory " + ranks.transports.get(0).memoryBytes());
    ranks.transports.forEach(Transport::close);
    if (cards != null) {
      System.out.println("flushes " + cards.calls("send op=4 ") + ", left " + cards.fake_live());
      System.out.println("dma-bufs " + cards.calls("dmabuf offset="));
      System.out.printf(
          "queue pairs of ports: %d, %d%n",
          cards.calls("init pkey=0 port=1"), cards.calls("init pkey=0 port=2"));
      System.out.println("by " + via);
    }
    System.out.println("carried " + ranks.channels + " channels" + (inLines ? " in LL" : ""));
  }

  /** The last channel's receivers take nothing until all others are through. */
  private void exchange() throws Exception {
    CountDownLatch others = new CountDownLatch(2 * (channels - 1));
    List<CompletableFuture<?>> kernels = new ArrayList<>();
    for (int rank = 0; rank < 2; rank++) {
      for (int channel = 0; channel < channels; channel++) {
        int from = rank;
        int number = channel;
        kernels.add(CompletableFuture.runAsync(() -> fill(from, number, STEPS), THREADS));
        kernels.add(CompletableFuture.runAsync(() -> empty(from, number, others), THREADS));
      }
    }
    CompletableFuture.allOf(kernels.toArray(CompletableFuture<?>[]::new))
        .get(SlotKernel.PATIENCE_SECONDS, TimeUnit.SECONDS);
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(SlotKernel.PATIENCE_SECONDS);
    for (Turns proxy : proxies) {
      while (!proxy.isIdle()) {
        SlotKernel.require(System.nanoTime() - end < 0, "a proxy has not ended");
        Thread.onSpinWait();
      }
    }
    for (Turns proxy : proxies) {
      SlotKernel.require(!proxy.failure.isDone(), "a proxy failed");
    }
  }

  /** Rank 1 goes without a word while rank 0 sends. */
  private void death() throws Exception {
    fill(0, 0, 1);
    proxies.get(1).end();
    transports.get(1).close();
    CompletableFuture<Void> kernel = CompletableFuture.runAsync(() -> fill(0, 0, STEPS), THREADS);
    NcclException failure =
        proxies.get(0).failure.get(SlotKernel.PATIENCE_SECONDS, TimeUnit.SECONDS);
    System.out.println("rank 0 says: " + failure.getMessage());
    over = true;
    kernel.get(SlotKernel.PATIENCE_SECONDS, TimeUnit.SECONDS);
  }

  private SlotKernel kernel(int from, Connection connection, Connection other, int channel) {
    return new SlotKernel(layout, connection, other, channel, from, () -> over);
  }

  /** The sending kernel of a channel. */
  private void fill(int from, int channel, int steps) {
    kernel(from, senders[from].connection(), receivers[1 - from].connection(), channel).fill(steps);
  }

  /** The receiving kernel of a channel. */
  private void empty(int from, int channel, CountDownLatch others) {
    if (channel == channels - 1) {
      await(others);
    }
    kernel(from, receivers[1 - from].connection(), senders[from].connection(), channel)
        .empty(STEPS);
    if (channel != channels - 1) {
      others.countDown();
    }
  }

  private static void await(CountDownLatch latch) {
    try {
      SlotKernel.require(
          latch.await(SlotKernel.PATIENCE_SECONDS, TimeUnit.SECONDS),
          "the other channels wait too");
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }
}
