package org.nccl4j.it.rdma;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Locale;
import java.util.concurrent.locks.LockSupport;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.testkit.RankContext;
import org.nccl4j.transport.net.ib.IbProvider;

/**
 * The measurement of ib_write_bw, through our InfiniBand network: one process sends messages of one
 * size to another, a few under way at a time. Started twice: {@code receive FILE BYTES COUNT DEPTH
 * MICROS} writes its handle to the file, {@code send} with the same arguments reads it and prints
 * MB/s of the second half. A waiting side sleeps for so many microseconds.
 */
public final class NetBandwidth {
  private static final long DEADLINE_NANOS = 120_000_000_000L;
  private static final long END = System.nanoTime() + DEADLINE_NANOS;

  private static int pauses;
  private static long sleepNanos;

  private NetBandwidth() {}

  /** See the class. */
  public static void main(String[] args) throws IOException {
    boolean sends = args[0].equals("send");
    Path file = Path.of(args[1]);
    int bytes = Integer.parseInt(args[2]);
    int count = Integer.parseInt(args[3]);
    int depth = Integer.parseInt(args[4]);
    sleepNanos = 1000L * Integer.parseInt(args[5]);
    try (Net net =
            new IbProvider().open(new RankContext(sends ? 0 : 1, new byte[16], System::getenv));
        DeviceMemory memory = HostDevice.instance().allocate(bytes)) {
      if (sends) {
        send(net, file, memory, bytes, count, depth);
      } else {
        receive(net, file, memory, bytes, count, depth);
      }
    }
  }

  private static void receive(
      Net net, Path file, DeviceMemory memory, int bytes, int count, int depth) throws IOException {
    try (NetListener listener = net.listen(0)) {
      Path part = Path.of(file + ".part");
      Files.write(part, listener.handle());
      Files.move(part, file, StandardCopyOption.ATOMIC_MOVE);
      NetReceiver receiver = listener.accept();
      while (receiver == null) {
        pause();
        receiver = listener.accept();
      }
      NetMemory[] memories = {receiver.register(memory)};
      NetRequest[] requests = new NetRequest[depth];
      for (int i = 0; i < count + depth; i++) {
        int slot = i % depth;
        while (requests[slot] != null && !requests[slot].test(null)) {
          pause();
        }
        requests[slot] = null;
        while (i < count && requests[slot] == null) {
          requests[slot] =
              receiver.irecv(1, memories, new long[] {0}, new int[] {bytes}, new int[] {1});
        }
      }
    }
  }

  private static void send(Net net, Path file, DeviceMemory memory, int bytes, int count, int depth)
      throws IOException {
    while (!Files.exists(file)) {
      pause();
    }
    NetSender sender = net.connect(0, Files.readAllBytes(file));
    while (!sender.isConnected()) {
      pause();
    }
    NetMemory from = sender.register(memory);
    NetRequest[] requests = new NetRequest[depth];
    long start = 0;
    for (int i = 0; i < count + depth; i++) {
      int slot = i % depth;
      if (i == count / 2) {
        start = System.nanoTime();
      }
      while (requests[slot] != null && !requests[slot].test(null)) {
        pause();
      }
      requests[slot] = null;
      while (i < count && requests[slot] == null) {
        requests[slot] = sender.isend(from, 0, bytes, 1);
        if (requests[slot] == null) {
          pause();
        }
      }
    }
    double seconds = (System.nanoTime() - start) / 1e9;
    System.out.printf(Locale.ROOT, "%.1f%n", bytes * (count - count / 2) / seconds / 1e6);
  }

  /**
   * Between two looks. Both ends sleep: the guest has one processor, which has to move the data
   * too.
   */
  private static void pause() {
    if ((++pauses & 255) == 0 && System.nanoTime() > END) {
      throw new AssertionError("not done within 120 s");
    }
    LockSupport.parkNanos(sleepNanos);
  }
}
