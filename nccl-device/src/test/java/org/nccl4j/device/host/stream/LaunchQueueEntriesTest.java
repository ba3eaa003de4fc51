package org.nccl4j.device.host.stream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.memory.HostMemory;

/** Launches that are alike share an entry of the queue, and nobody can tell. */
@Timeout(600)
class LaunchQueueEntriesTest {
  private static final long PATIENCE_NANOS = 300_000_000_000L;

  /** One launch as it was added, and as it ran. */
  private record Launch(int operation, HostMemory send, HostMemory recv, long ticket) {}

  private static final HostMemory[] MEMORIES = {
    null, memory(), memory(),
  };

  private static HostMemory memory() {
    return HostMemory.of(HostDevice.instance().allocate(64));
  }

  @Test
  void everyLaunchRunsWithItsOwnArguments() {
    long seed = Long.getLong("nccl4j.seed", 1);
    Random random = new Random(seed);
    LaunchQueue queue = new LaunchQueue();
    List<Launch> added = new ArrayList<>();
    List<Launch> ran = new ArrayList<>();
    StreamOperation[] operations = new StreamOperation[2];
    for (int o = 0; o < operations.length; o++) {
      int number = o;
      operations[o] = (send, recv, ticket) -> ran.add(new Launch(number, send, recv, ticket));
    }
    Launch next = new Launch(0, null, null, 0);
    for (int i = 0; i < 20_000; i++) {
      // Mostly one more of the same; now and then something of it is another.
      next =
          switch (random.nextInt(12)) {
            case 0 -> new Launch(1 - next.operation, next.send, next.recv, next.ticket + 1);
            case 1 -> new Launch(next.operation, any(random), next.recv, next.ticket + 1);
            case 2 -> new Launch(next.operation, next.send, any(random), next.ticket + 1);
            case 3 -> new Launch(next.operation, next.send, next.recv, random.nextInt(50));
            case 4 -> next;
            default -> new Launch(next.operation, next.send, next.recv, next.ticket + 1);
          };
      while (!queue.add(operations[next.operation], next.send, next.recv, next.ticket)) {
        assertTrue(queue.run(queue.ended() + 1 + random.nextInt(300)), "seed " + seed);
      }
      added.add(next);
      if (random.nextInt(400) == 0) {
        assertTrue(queue.run(queue.added()), "seed " + seed);
        queue.forgetEnded();
      }
    }
    assertTrue(queue.run(queue.added()));
    assertEquals(added, ran, "seed " + seed);
    assertNull(queue.takeError());
  }

  private static HostMemory any(Random random) {
    return MEMORIES[random.nextInt(MEMORIES.length)];
  }

  @Test
  void launchesUnlikeEachOtherFillTheQueue() {
    LaunchQueue queue = new LaunchQueue();
    long[] ran = new long[1];
    StreamOperation operation = (send, recv, ticket) -> ran[0] += ticket;
    fill(queue, operation);
    assertFalse(queue.add(operation, null, null, 7));
    queue.grow(true);
    assertTrue(queue.add(operation, null, null, 7), "a queue that grows is never full");
    assertTrue(queue.run(queue.added()));
    assertEquals(7, ran[0]);
  }

  /** The entry of what has run is still the runner's when the others are full. */
  @Test
  void aQueueThatGrowsTakesALaunchWhileNoEntryIsFree() {
    LaunchQueue queue = new LaunchQueue();
    long[] ran = new long[1];
    StreamOperation operation = (send, recv, ticket) -> ran[0]++;
    fill(queue, operation);
    assertTrue(queue.run(1));
    queue.grow(true);
    assertTrue(queue.add(operation, null, null, 0));
    assertTrue(queue.add(operation, null, null, 0));
    assertTrue(queue.run(queue.added()));
    assertEquals(LaunchQueue.CAPACITY + 2, ran[0]);
  }

  /** With one ticket for all, so that each launch has an entry. */
  private static void fill(LaunchQueue queue, StreamOperation operation) {
    for (int i = 0; i < LaunchQueue.CAPACITY; i++) {
      assertTrue(queue.add(operation, null, null, 0), "launch " + i);
    }
  }

  @Test
  void anEmptyQueueForgetsTheMemoryOfItsLastLaunch() {
    LaunchQueue queue = new LaunchQueue();
    HostMemory kept = memory();
    WeakReference<HostMemory> last = new WeakReference<>(kept);
    assertTrue(queue.add((send, recv, ticket) -> {}, kept, null, 0));
    queue.forgetEnded();
    kept = null;
    System.gc();
    assertNotNull(last.get(), "the launch has not run");
    assertTrue(queue.run(1));
    queue.forgetEnded();
    long end = System.nanoTime() + PATIENCE_NANOS;
    while (last.get() != null && System.nanoTime() < end) {
      System.gc();
    }
    assertNull(last.get());
    assertTrue(queue.add((send, recv, ticket) -> {}, null, null, 0));
  }

  /** Each launch has an entry of its own; the one at a multiple of 256 follows a forgotten one. */
  @Test
  void aLaunchIsNotTakenForOneMoreOfAForgottenEntry() {
    LaunchQueue queue = new LaunchQueue();
    for (int i = 0; i < 256; i++) {
      assertTrue(queue.add((send, recv, ticket) -> {}, null, null, 0));
      assertTrue(queue.run(i + 1));
    }
    queue.forgetEnded();
    AtomicInteger ran = new AtomicInteger();
    assertTrue(queue.add((send, recv, ticket) -> ran.incrementAndGet(), null, null, 0));
    assertTrue(queue.run(257));
    assertNull(queue.takeError());
    assertEquals(1, ran.get());
  }

  @Test
  void nothingRunsAgainForAPositionThatIsNotAddedYet() {
    LaunchQueue queue = new LaunchQueue();
    AtomicInteger ran = new AtomicInteger();
    assertTrue(queue.add((send, recv, ticket) -> ran.incrementAndGet(), null, null, 0));
    assertTrue(queue.run(3));
    assertEquals(1, ran.get());
    assertEquals(1, queue.ended());
    assertTrue(queue.add((send, recv, ticket) -> ran.addAndGet(10), null, null, 0));
    assertTrue(queue.run(2));
    assertEquals(11, ran.get());
  }

  @Test
  void anEventWhoseRecordingWasRefusedWasNotRecorded() {
    HostEvent event = new HostEvent();
    DeviceStream stream = HostDevice.instance().createStream();
    stream.close();
    assertThrows(InvalidUsageException.class, () -> stream.record(event));
    event.synchronize();
    assertTrue(event.isComplete());
  }
}
