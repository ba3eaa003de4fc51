package org.nccl4j.transport.net.ib;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.Random;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.transport.net.ib.verbs.VerbsLayout;

/**
 * Groups of messages between ports that go down and up, some of them merged, over queue pairs that
 * break, at random moments: all arrive once, whole, with their sizes and notes. Receives are moved
 * to other memory at random, too, some of them with another size than the message has.
 */
@Timeout(600)
class RandomPortsTest extends WithFakeVerbs {
  private static final int SEEDS = Integer.getInteger("nccl4j.rounds", 200);
  private static final long FIRST_SEED = Long.getLong("nccl4j.seed", 1);
  private static final int GROUPS = 30;
  private static final int UNDER_WAY = 6;
  private static final int SHORT = 3000;

  /** More than goes over one port of a merged device. */
  private static final int ROOM = 24_000;

  private static final int MOST_MESSAGES = 8;
  private static final int CELL = MOST_MESSAGES * ROOM;

  /** Moves are told of by warnings, thousands of them. */
  private final Logger log = Logger.getLogger("org.nccl4j.NET");

  private Level levelBefore;

  @BeforeEach
  void quiet() {
    levelBefore = log.getLevel();
    log.setLevel(Level.SEVERE);
  }

  @AfterEach
  void loud() {
    log.setLevel(levelBefore);
  }

  /** A group: what is sent, and both ends' requests. */
  private static final class Group {
    private int cell;
    private int[] sizes;
    private int[] notes;
    private byte[][] data;
    private NetRequest receive;
    private NetRequest[] sends;
    private int begun;
    private int ended;
    private int[] order;

    /** The size for which the receive is moved to other memory; -1 for none. */
    private int otherBytes;

    /** True if it is moved from its begin. */
    private boolean early;

    private boolean moved;
  }

  /** Messages that came to other memory. */
  private int redirected;

  /** Data that were written before the immediate that ends them. */
  private long apart;

  @Test
  void everythingArrivesOnce() {
    long moves = 0;
    for (long seed = FIRST_SEED; seed < FIRST_SEED + SEEDS; seed++) {
      boolean adaptive = seed % 2 == 0;
      long before = apart;
      moves += run(new Random(seed * 7919), "seed " + seed, adaptive);
      assertTrue(adaptive || apart == before, "data apart with seed " + seed);
      FakeVerbs.empty();
    }
    assertTrue(moves > SEEDS, moves + " moves");
    assertTrue(apart > SEEDS, apart + " data apart from their immediates");
    assertTrue(redirected > SEEDS, redirected + " messages in other memory");
  }

  /**
   * Moves messages while ports go down.
   *
   * @param adaptive whether data of more than a few bytes are written before what ends them
   */
  private long run(Random random, String seed, boolean adaptive) {
    int devices = 1 + random.nextInt(3);
    for (int d = 0; d < devices; d++) {
      FakeVerbs.addRoce(fake, "roce" + d, 5);
      fake.fake_set_speed(d, 1, random.nextBoolean() ? 64 : 16);
    }
    String[] merged = {"", "roce0,roce1", "roce0,roce1,roce2"};
    String merge = devices == 1 ? "" : merged[random.nextInt(devices)];
    int pairs = 1 + random.nextInt(4);
    try (IbLink link =
            new IbLink(
                "NCCL_IB_QPS_PER_CONNECTION",
                Integer.toString(pairs),
                "NCCL_IB_SPLIT_DATA_ON_QPS",
                Integer.toString(random.nextInt(2)),
                "NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY",
                "1",
                "NCCL_IB_ADAPTIVE_ROUTING",
                adaptive ? "1" : "0",
                "NCCL_IB_AR_THRESHOLD",
                "100",
                "NCCL_NET_FORCE_MERGE",
                merge);
        DeviceMemory source = IbLink.memory(UNDER_WAY * CELL);
        DeviceMemory target = IbLink.memory(UNDER_WAY * CELL);
        DeviceMemory other = IbLink.memory(UNDER_WAY * ROOM)) {
      NetMemory out = link.sender.register(source);
      NetMemory in = link.receiver.register(target);
      NetMemory elsewhere = link.receiver.register(other);
      fake.fake_chaos(40 + random.nextInt(400), random.nextInt(1 << 30));
      Deque<Group> groups = new ArrayDeque<>();
      boolean[] down = new boolean[devices];
      int begun = 0;
      long end = System.nanoTime() + IbLink.DEADLINE_NANOS;
      while (begun < GROUPS || !groups.isEmpty()) {
        assertTrue(System.nanoTime() < end, seed + ": waited too long");
        if (begun < GROUPS && groups.size() < UNDER_WAY && random.nextInt(3) == 0) {
          groups.add(group(random, begun++ % UNDER_WAY, source));
        }
        ((IbConnection) link.sender).poll();
        ((IbConnection) link.receiver).poll();
        for (Group each : groups) {
          if (each.receive == null && each.otherBytes >= 0 && each.early) {
            long at = (long) each.cell * ROOM;
            assertTrue(link.receiver.redirectNext(elsewhere, at, each.otherBytes));
            each.moved = true;
          }
          receive(each, link, in);
          boolean moves = each.receive != null && !each.moved && each.otherBytes >= 0;
          if (moves && random.nextBoolean()) {
            long at = (long) each.cell * ROOM;
            each.moved = each.receive.redirect(elsewhere, at, each.otherBytes);
          }
          send(each, link, out);
        }
        while (!groups.isEmpty() && isOver(groups.peek(), target, other, seed)) {
          groups.remove();
        }
        if (random.nextInt(400) == 0) {
          int device = random.nextInt(devices);
          down[device] = !down[device] && !isLast(down);
          fake.fake_set_down(device, 1, down[device] ? 1 : 0);
          fake.fake_event(
              device, down[device] ? VerbsLayout.EVENT_PORT_ERR : VerbsLayout.EVENT_PORT_ACTIVE, 1);
        }
      }
      apart += fake.fake_calls().lines().filter(RandomPortsTest::isApart).count();
      return link.sender.failovers().count();
    }
  }

  /**
   * True for an unsignaled write of data. Announcements and sizes have whole words; a part of the
   * data that happens to have is not counted.
   */
  private static boolean isApart(String call) {
    return call.startsWith("send op=0 bytes=")
        && call.contains(" flags=0 ")
        && Integer.parseInt(call.split("[= ]")[4]) % Integer.BYTES != 0;
  }

  private static boolean isLast(boolean[] down) {
    int up = 0;
    for (boolean each : down) {
      up += each ? 0 : 1;
    }
    return up <= 1;
  }

  private static Group group(Random random, int cell, DeviceMemory source) {
    Group group = new Group();
    int n = random.nextBoolean() ? 1 : 1 + random.nextInt(MOST_MESSAGES);
    group.cell = cell;
    group.sizes = new int[n];
    group.notes = new int[n];
    group.data = new byte[n][];
    group.sends = new NetRequest[n];
    group.order = random.ints(0, n).distinct().limit(n).toArray();
    for (int m = 0; m < n; m++) {
      int most = random.nextInt(8) == 0 ? ROOM : SHORT;
      group.sizes[m] = random.nextInt(4) == 0 ? 0 : random.nextInt(most);
      group.notes[m] = n == 1 && random.nextInt(3) == 0 ? 1 + random.nextInt(0xffff) : 0;
      group.data[m] = new byte[group.sizes[m]];
      random.nextBytes(group.data[m]);
      source.write((long) cell * CELL + m * ROOM, ByteBuffer.wrap(group.data[m]));
    }
    group.early = random.nextBoolean();
    boolean exact = random.nextInt(4) > 0;
    group.otherBytes = n > 1 || random.nextBoolean() ? -1 : group.sizes[0] + (exact ? 0 : 1);
    return group;
  }

  private static void receive(Group group, IbLink link, NetMemory in) {
    int n = group.sizes.length;
    if (group.receive == null) {
      NetMemory[] memories = new NetMemory[n];
      long[] offsets = new long[n];
      int[] bytes = new int[n];
      int[] tags = new int[n];
      for (int m = 0; m < n; m++) {
        memories[m] = in;
        offsets[m] = (long) group.cell * CELL + m * ROOM;
        bytes[m] = ROOM;
        tags[m] = group.cell * MOST_MESSAGES + m;
      }
      group.receive = link.receiver.irecv(n, memories, offsets, bytes, tags);
    }
  }

  private static void send(Group group, IbLink link, NetMemory out) {
    int n = group.sizes.length;
    if (group.begun < n) {
      int m = group.order[group.begun];
      long offset = (long) group.cell * CELL + m * ROOM;
      int tag = group.cell * MOST_MESSAGES + m;
      group.sends[m] = link.sender.isend(out, offset, group.sizes[m], tag, group.notes[m]);
      group.begun += group.sends[m] == null ? 0 : 1;
    }
    for (int m = 0; m < n; m++) {
      if (group.sends[m] != null && group.sends[m].test(null)) {
        group.sends[m] = null;
        group.ended++;
        // Its memory is the sender's again.
        byte[] noise = new byte[ROOM];
        Arrays.fill(noise, (byte) 0x5a);
        out.memory().write((long) group.cell * CELL + m * ROOM, ByteBuffer.wrap(noise));
      }
    }
  }

  private boolean isOver(Group group, DeviceMemory target, DeviceMemory other, String seed) {
    int n = group.sizes.length;
    int[] sizes = new int[n];
    if (group.receive == null || group.ended < n || !group.receive.test(sizes)) {
      return false;
    }
    assertArrayEquals(group.sizes, sizes, seed);
    if (n == 1) {
      assertEquals(group.notes[0], group.receive.note(), seed);
    }
    if (group.receive.isRedirected()) {
      assertTrue(group.moved && group.otherBytes == sizes[0], seed);
      long at = (long) group.cell * ROOM;
      assertArrayEquals(group.data[0], IbLink.read(other, at, sizes[0]), seed + ", other memory");
      other.write(at, ByteBuffer.wrap(new byte[ROOM]));
      redirected++;
      return true;
    }
    for (int m = 0; m < n; m++) {
      byte[] arrived = IbLink.read(target, (long) group.cell * CELL + m * ROOM, sizes[m]);
      assertArrayEquals(group.data[m], arrived, seed + " message " + m);
      // Whatever is written here from now on belongs to a later message.
      target.write((long) group.cell * CELL + m * ROOM, ByteBuffer.wrap(new byte[ROOM]));
    }
    return true;
  }
}
