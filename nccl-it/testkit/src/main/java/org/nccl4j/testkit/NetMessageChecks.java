package org.nccl4j.testkit;

import java.lang.management.ManagementFactory;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetRequest;

/** Checks a network's messages. */
final class NetMessageChecks {
  private static final int[] SIZES = {0, 1, 7, 8, 128, 129, 1000, 65_536, 65_537, 1 << 20, 5 << 20};
  private static final int MESSAGES = 500;
  private static final int OUTSTANDING = 8;
  private static final int PART = NetPair.BYTES / OUTSTANDING;
  private static final int WARM = 5_000;

  /**
   * From Java 22 on, native memory is a segment to the JDK, and its vectored reads and writes of
   * segments allocate 40 bytes each.
   */
  private static final int VECTOR_BYTES = 48;

  private static final int ROUNDS = 10;
  private static final long PATIENCE_NANOS = 60_000_000_000L;

  private final NetContract contract;

  NetMessageChecks(NetContract contract) {
    this.contract = contract;
  }

  List<Check> all() {
    return List.of(
        new Check("it has devices, and each accepts host memory", this::devices),
        new Check("messages of all sizes arrive whole and change no other memory", this::sizes),
        new Check("a message may be shorter than its receive", this::shorter),
        new Check("many messages under way keep their order", this::order),
        new Check("a message finds the receive of its tag", this::tags),
        new Check("a receive that is moved ends in one of its two memories", this::moved),
        new Check("a warm connection allocates nothing", this::allocation));
  }

  private void devices() {
    try (Net net = contract.provider().open(NetPair.context(0, 1, contract.settings()))) {
      List<NetDevice> devices = net.devices();
      Expect.that(!devices.isEmpty(), "there are no devices");
      for (NetDevice device : devices) {
        Expect.that(
            device.pointers().contains(NetDevice.Pointers.HOST), "no host memory: %s", device);
        Expect.that(device.maxReceives() >= 1, "no receives: %s", device);
        Expect.that(device.megabits() > 0 && device.maxBytes() > 0, "no speed: %s", device);
      }
      Expect.equal(devices.size(), net.devices().size(), "devices when asked again");
    }
  }

  private void sizes() {
    try (NetPair pair = new NetPair(contract)) {
      for (int size : SIZES) {
        pair.target.memory().fill((byte) 0x55);
        NetRequest receive = pair.receive(4096, size, 0);
        NetRequest send = pair.send(8192, size, 0);
        Expect.equal(size, NetPair.end(send, receive), "size");
        byte[] got = NetPair.bytes(pair.target, 0, NetPair.BYTES);
        byte[] wanted = new byte[NetPair.BYTES];
        Arrays.fill(wanted, (byte) 0x55);
        System.arraycopy(NetPair.bytes(pair.source, 8192, size), 0, wanted, 4096, size);
        Expect.that(Arrays.equals(wanted, got), "a message of %d bytes came wrong", size);
      }
    }
  }

  private void shorter() {
    try (NetPair pair = new NetPair(contract)) {
      NetRequest receive = pair.receive(0, 100_000, 3);
      Expect.equal(70_001, NetPair.end(pair.send(0, 70_001, 3), receive), "size");
      byte[] wanted = NetPair.bytes(pair.source, 0, 70_001);
      Expect.that(Arrays.equals(wanted, NetPair.bytes(pair.target, 0, 70_001)), "wrong bytes");
    }
  }

  private void order() {
    Random random = new Random(7);
    int[] sizes = random.ints(MESSAGES, 0, 100_000).toArray();
    try (NetPair pair = new NetPair(contract)) {
      ArrayDeque<NetRequest> sends = new ArrayDeque<>();
      ArrayDeque<NetRequest> receives = new ArrayDeque<>();
      int[] counts = new int[3];
      int[] size = new int[1];
      NetPair.until(
          "all messages",
          () -> {
            if (counts[0] < MESSAGES && receives.size() < OUTSTANDING) {
              receives.add(pair.receive((long) counts[0]++ % OUTSTANDING * PART, PART, 0));
            }
            if (counts[1] < MESSAGES && sends.size() < OUTSTANDING) {
              NetRequest send = pair.sender.isend(pair.source, counts[1], sizes[counts[1]], 0);
              if (send != null) {
                sends.add(send);
                counts[1]++;
              }
            }
            if (!sends.isEmpty() && sends.peek().test(null)) {
              sends.remove();
            }
            if (!receives.isEmpty() && receives.peek().test(size)) {
              receives.remove();
              arrived(pair, counts[2]++, sizes, size[0]);
            }
            return counts[2] == MESSAGES && sends.isEmpty();
          });
    }
  }

  private static void arrived(NetPair pair, int number, int[] sizes, int size) {
    Expect.equal(sizes[number], size, "size of message " + number);
    byte[] got = NetPair.bytes(pair.target, (long) number % OUTSTANDING * PART, size);
    Expect.that(Arrays.equals(NetPair.bytes(pair.source, number, size), got), "message %d", number);
  }

  private void tags() {
    try (NetPair pair = new NetPair(contract)) {
      NetRequest first = pair.receive(0, 64, 1);
      NetRequest second = pair.receive(64, 64, 2);
      NetRequest late = pair.send(100, 64, 2);
      Expect.equal(64, NetPair.end(late, second), "size");
      NetPair.end(pair.send(200, 64, 1), first);
      byte[] wanted = NetPair.bytes(pair.source, 100, 64);
      Expect.that(Arrays.equals(wanted, NetPair.bytes(pair.target, 64, 64)), "tag 2");
      wanted = NetPair.bytes(pair.source, 200, 64);
      Expect.that(Arrays.equals(wanted, NetPair.bytes(pair.target, 0, 64)), "tag 1");
    }
  }

  /** Before and after it has begun, to memory for exactly the message's size or for another one. */
  private void moved() {
    int other = 1 << 20;
    try (NetPair pair = new NetPair(contract)) {
      for (int round = 0; round < 4 * OUTSTANDING; round++) {
        int size = 1000 + 7001 * (round / 4);
        int exact = size + round % 2;
        pair.target.memory().fill((byte) 0x55);
        boolean begun =
            round % 4 >= 2
                && pair.receiver.redirects()
                && pair.receiver.redirectNext(pair.target, other, exact);
        NetRequest receive = pair.receive(0, size, 0);
        boolean moved = begun || receive.redirect(pair.target, other, exact);
        Expect.that(!moved || pair.receiver.redirects(), "moved, though that cannot be");
        Expect.equal(size, NetPair.end(pair.send(100, size, 0), receive), "size");
        boolean there = receive.isRedirected();
        Expect.that(!there || moved && exact == size, "in memory for %d bytes: %d", exact, size);
        byte[] wanted = new byte[NetPair.BYTES];
        Arrays.fill(wanted, (byte) 0x55);
        System.arraycopy(NetPair.bytes(pair.source, 100, size), 0, wanted, there ? other : 0, size);
        byte[] got = NetPair.bytes(pair.target, 0, NetPair.BYTES);
        Expect.that(Arrays.equals(wanted, got), "a message of %d bytes came wrong", size);
      }
    }
  }

  private void allocation() {
    var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
    try (NetPair pair = new NetPair(contract)) {
      NetMemory[] memories = {pair.target};
      long[] offsets = {0};
      int[] sizes = {4096};
      int[] tags = {0};
      long self = Thread.currentThread().getId();
      long least = Long.MAX_VALUE;
      int allowed = WARM * (Runtime.version().feature() < 22 ? 1 : VECTOR_BYTES);
      // The least of some rounds: the JVM allocates for itself now and then.
      for (int round = 0; round < ROUNDS && least >= allowed; round++) {
        long before = threads.getThreadAllocatedBytes(self);
        pingAll(pair, memories, offsets, sizes, tags);
        least = Math.min(least, threads.getThreadAllocatedBytes(self) - before);
      }
      Expect.that(least < allowed, "%d messages allocated %d bytes", WARM, least);
    }
  }

  private static void pingAll(
      NetPair pair, NetMemory[] memories, long[] offsets, int[] sizes, int[] tags) {
    for (int m = 0; m < WARM; m++) {
      long start = System.nanoTime();
      NetRequest receive = null;
      NetRequest send = null;
      boolean sent = false;
      boolean received = false;
      while (!sent || !received) {
        receive =
            receive == null ? pair.receiver.irecv(1, memories, offsets, sizes, tags) : receive;
        send = send == null ? pair.sender.isend(pair.source, 0, sizes[0], 0) : send;
        sent = sent || send != null && send.test(null);
        received = received || receive != null && receive.test(null);
        Thread.yield();
        if (System.nanoTime() - start > PATIENCE_NANOS) {
          throw new AssertionError("messages take too long");
        }
      }
    }
  }
}
