package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.ExpertConfig;
import org.nccl4j.api.ExpertExchange;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.SystemErrorException;

/**
 * A program of three ranks that dispatch more tokens to rank 0 than it has room for, first with a
 * limit on the process's addresses. The other two ranks need no more memory.
 */
public final class ExpertsLackingMemory {
  private static final int RANKS = 3;
  private static final int TOKENS = 256;
  private static final int HIDDEN = 16 << 10;

  /** Fewer than the 64 MiB that rank 0 needs, and more than Java needs meanwhile. */
  private static final long LEFT_BYTES = 56 << 20;

  private static final ExpertConfig SIZES =
      new ExpertConfig(TOKENS, HIDDEN, 1, RANKS, DataType.FLOAT32, false);

  private ExpertsLackingMemory() {}

  /** The command that limits a process. */
  static Path prlimit() {
    return Path.of("/usr/bin/prlimit");
  }

  /** No arguments. */
  public static void main(String[] arguments) throws Exception {
    CyclicBarrier barrier = new CyclicBarrier(RANKS);
    try (Ranks ranks = new Ranks(RANKS)) {
      ranks.run((comm, stream) -> run(comm, stream, barrier));
    }
    System.out.println("all ranks were told");
  }

  private static void run(Communicator comm, DeviceStream stream, CyclicBarrier barrier)
      throws Exception {
    try (ExpertExchange exchange = comm.createExpertExchange(SIZES);
        DeviceMemory tokens = Devices.host().allocate(4L * TOKENS * HIDDEN);
        DeviceMemory own = Devices.host().allocate(4L * TOKENS);
        DeviceMemory first = Devices.host().allocate(4L * TOKENS);
        DeviceMemory result = Devices.host().allocate(4L * TOKENS * HIDDEN)) {
      own.write(0, numbers(comm.rank()));
      exchange.dispatch(tokens, own, own, TOKENS, stream); // to an expert of the rank itself
      limit(comm, barrier, LEFT_BYTES);
      NcclException e =
          assertThrows(
              NcclException.class, () -> exchange.dispatch(tokens, first, first, TOKENS, stream));
      assertTrue(e.problem().contains("rank 0 has no memory for "), e.toString());
      assertTrue(e.remedy().contains("free memory on rank 0"), e.toString());
      Class<?> expected = comm.rank() == 0 ? SystemErrorException.class : RemoteException.class;
      assertEquals(expected, e.getClass(), e.toString());
      exchange.combine(exchange.received(), result, stream); // for the dispatch before
      stream.synchronize();
      limit(comm, barrier, -1);
      exchange.dispatch(tokens, first, first, TOKENS, stream);
      stream.synchronize();
      ByteBuffer offsets = ByteBuffer.allocate(8).order(ByteOrder.nativeOrder());
      exchange.offsets().read(0, offsets);
      assertEquals(comm.rank() == 0 ? RANKS * TOKENS : 0, offsets.getInt(4));
    }
  }

  private static ByteBuffer numbers(int number) {
    ByteBuffer numbers = ByteBuffer.allocate(4 * TOKENS).order(ByteOrder.nativeOrder());
    while (numbers.hasRemaining()) {
      numbers.putInt(number);
    }
    return numbers.flip();
  }

  /** Limits the process's addresses to those that it has and some more, or takes the limit away. */
  private static void limit(Communicator comm, CyclicBarrier barrier, long more) throws Exception {
    barrier.await(300, TimeUnit.SECONDS);
    if (comm.rank() == 0) {
      String bytes = more < 0 ? "unlimited" : Long.toString(addressBytes() + more);
      Process process =
          new ProcessBuilder(
                  prlimit().toString(),
                  "--pid",
                  Long.toString(ProcessHandle.current().pid()),
                  "--as=" + bytes + ":")
              .inheritIO()
              .start();
      assertEquals(0, process.waitFor());
    }
    barrier.await(300, TimeUnit.SECONDS);
  }

  private static long addressBytes() throws Exception {
    return Files.readAllLines(Path.of("/proc/self/status")).stream()
        .filter(line -> line.startsWith("VmSize:"))
        .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")) << 10)
        .findFirst()
        .orElseThrow();
  }
}
