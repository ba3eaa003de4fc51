package org.nccl4j.it.rdma;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.function.BooleanSupplier;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.api.spi.Support;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.testkit.RankContext;
import org.nccl4j.transport.net.ib.IbProvider;

/**
 * Run in the guest: says whether InfiniBand can be used, and moves messages within the process.
 * With the argument {@code shrink} the link's MTU becomes smaller between two messages, and what
 * the second one's failure says is printed.
 */
public final class IbProbe {
  private static final long DEADLINE_NANOS = 60_000_000_000L;
  private static final int BYTES = 100_000;

  private IbProbe() {}

  /** See the class. */
  public static void main(String[] args) throws IOException, InterruptedException {
    IbProvider provider = new IbProvider();
    try {
      Support support = provider.support(context(0, System.getenv("NCCL_IB_HCA")));
      System.out.println("support " + support.possible() + " " + support.reason());
      if (support.possible()) {
        try (Net from = provider.open(context(0, args[0]));
            Net to = provider.open(context(1, args[1]))) {
          transfer(from, to, List.of(args).subList(2, args.length));
        }
      }
    } catch (NcclException e) {
      System.out.println("error " + e.getMessage());
    }
  }

  private static void transfer(Net fromNet, Net toNet, List<String> between)
      throws IOException, InterruptedException {
    try (NetListener listener = toNet.listen(0);
        DeviceMemory source = HostDevice.instance().allocate(BYTES);
        DeviceMemory target = HostDevice.instance().allocate(BYTES)) {
      NetSender sender = fromNet.connect(0, listener.handle());
      NetReceiver[] receiver = new NetReceiver[1];
      await(
          () -> {
            boolean connected = sender.isConnected();
            receiver[0] = receiver[0] == null ? listener.accept() : receiver[0];
            return connected && receiver[0] != null;
          });
      byte[] sent = new byte[BYTES];
      for (int i = 0; i < BYTES; i++) {
        sent[i] = (byte) (i * 7 + (i >> 9));
      }
      source.write(0, ByteBuffer.wrap(sent));
      NetMemory from = sender.register(source);
      NetMemory to = receiver[0].register(target);
      message(sender, receiver[0], from, to, 64);
      if (!between.isEmpty()) {
        new ProcessBuilder(between).inheritIO().start().waitFor();
      }
      message(sender, receiver[0], from, to, BYTES);
      byte[] received = new byte[BYTES];
      target.read(0, ByteBuffer.wrap(received));
      System.out.println("transferred " + Arrays.equals(sent, received));
    }
  }

  private static void message(
      NetSender sender, NetReceiver receiver, NetMemory from, NetMemory to, int bytes) {
    NetMemory[] memories = {to};
    int[] sizes = {bytes};
    int[] tags = {1};
    NetRequest[] receive = new NetRequest[1];
    NetRequest[] send = new NetRequest[1];
    boolean[] ended = new boolean[2];
    await(
        () -> {
          receive[0] =
              receive[0] == null
                  ? receiver.irecv(1, memories, new long[1], sizes, tags)
                  : receive[0];
          send[0] = send[0] == null ? sender.isend(from, 0, bytes, 1) : send[0];
          ended[0] = ended[0] || send[0] != null && send[0].test(null);
          ended[1] = ended[1] || receive[0] != null && receive[0].test(null);
          return ended[0] && ended[1];
        });
  }

  private static void await(BooleanSupplier done) {
    long end = System.nanoTime() + DEADLINE_NANOS;
    while (!done.getAsBoolean()) {
      if (System.nanoTime() > end) {
        throw new AssertionError("not within 60 s");
      }
      Thread.yield();
    }
  }

  private static NetContext context(int rank, String port) {
    return new RankContext(
        rank, new byte[16], name -> name.equals("NCCL_IB_HCA") ? port : System.getenv(name));
  }
}
