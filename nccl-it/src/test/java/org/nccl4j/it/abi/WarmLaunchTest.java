package org.nccl4j.it.abi;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.operation.Operation;

/** The cost of a C program's call on the Java side. */
class WarmLaunchTest {
  private static final int CALLS = 20_000;
  private static final int BUFFERS = 100;
  private static final int MOST_ROUNDS = 30;
  private static final int HOST = 1; // ncclScalarHostImmediate

  /** Bytes of the smallest object. At a group's end a wait for the stream may allocate at times. */
  private static final int OBJECT = 16;

  private final ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();

  /** Calls of a C program, on a communicator of one rank. */
  private interface Calls {
    void run(long comm, long address);
  }

  /** Buffers are wrapped once, and found by address and size from then on. */
  @Test
  void operationsAllocateNothing() {
    assertAllocatesNothing(
        1,
        (comm, address) -> {
          long shape = shape(Operation.ALL_REDUCE);
          for (int call = 0; call < CALLS; call++) {
            long at = address + 64L * (call % BUFFERS);
            assertEquals(0, Entry.launch(comm, shape, at, at, 1 + call % 2, 0));
          }
        });
  }

  /** As pipelines call them: the own rank's data come back. */
  @Test
  void groupsOfSendsAndReceivesAllocateNothing() {
    assertAllocatesNothing(
        OBJECT,
        (comm, address) -> {
          for (int call = 0; call < CALLS; call++) {
            assertEquals(0, Entry.groupStart());
            assertEquals(0, Entry.launch(comm, shape(Operation.SEND), address, 0, 8, 0));
            assertEquals(0, Entry.launch(comm, shape(Operation.RECV), 0, address + 64, 8, 0));
            assertEquals(0, Entry.groupEnd());
          }
        });
  }

  @Test
  void groupsOfCollectivesAllocateNothing() {
    assertAllocatesNothing(
        OBJECT,
        (comm, address) -> {
          long shape = shape(Operation.ALL_REDUCE);
          for (int call = 0; call < CALLS; call++) {
            assertEquals(0, Entry.groupStart());
            assertEquals(0, Entry.launch(comm, shape, address, address + 64, 8, 0));
            assertEquals(0, Entry.launch(comm, shape, address + 128, address + 192, 8, 0));
            assertEquals(0, Entry.groupEnd());
          }
        });
  }

  @Test
  void operatorsAllocateNothing() {
    int[] operator = new int[1];
    assertAllocatesNothing(
        1,
        (comm, address) -> {
          long shape = shape(Operation.ALL_REDUCE);
          if (operator[0] == 0) {
            operator[0] = Entry.preMulSum(comm, DataType.INT32.ordinal(), 3, HOST);
          }
          for (int call = 0; call < CALLS; call++) {
            assertEquals(
                0, Entry.launchWith(operator[0], comm, shape, address, address + 64, 8, 0));
          }
        });
  }

  /** To the own rank's window, alone and in groups. */
  @Test
  void putsSignalsAndWaitsAllocateNothing() {
    long[] window = new long[1];
    Offheap awaited = new Offheap(4 * Integer.BYTES); // two signals of rank 0, and one
    awaited.putInt(0, 2).putInt(8, 1);
    assertAllocatesNothing(
        OBJECT,
        (comm, address) -> {
          long shape = CallShape.of(Operation.PUT_SIGNAL, DataType.INT32, RedOp.SUM, 0);
          if (window[0] == 0) {
            window[0] = Entry.register(comm, address, 4096, /* window= */ true, false);
          }
          for (int call = 0; call < CALLS; call++) {
            assertEquals(0, Entry.put(comm, shape, address + 8192, 8, window[0], 64, 0));
            assertEquals(0, Entry.signal(comm, 0, 0));
            assertEquals(0, Entry.waitSignal(comm, awaited.address(), 1, 0));
            assertEquals(0, Entry.groupStart());
            assertEquals(0, Entry.put(comm, shape, address + 8192, 8, window[0], 128, 0));
            assertEquals(0, Entry.put(comm, shape, address + 8192, 8, window[0], 256, 0));
            assertEquals(0, Entry.signal(comm, 0, 0));
            assertEquals(0, Entry.waitSignal(comm, awaited.address(), 2, 0));
            assertEquals(0, Entry.groupEnd());
          }
        });
  }

  private static long shape(Operation operation) {
    return CallShape.of(operation, DataType.INT32, RedOp.SUM, 0);
  }

  /** Asserts that calls allocate less than so many bytes each. */
  private void assertAllocatesNothing(int bytesEach, Calls calls) {
    try (Communicator alone = Communicator.initAll(List.of(Devices.host())).get(0);
        DeviceMemory memory = Devices.host().memAlloc(1 << 16)) {
      RankHandle handle = RankHandle.warm(alone);
      calls.run(handle.handle(), memory.address());
      // Compilers replace code now and then, for which the thread allocates a little.
      long bytes = Long.MAX_VALUE;
      for (int round = 0; round < MOST_ROUNDS && bytes >= (long) bytesEach * CALLS; round++) {
        long before = threads.getCurrentThreadAllocatedBytes();
        calls.run(handle.handle(), memory.address());
        bytes = threads.getCurrentThreadAllocatedBytes() - before;
      }
      assertTrue(bytes < (long) bytesEach * CALLS, bytes + " bytes in " + CALLS + " calls");
      Operators.forget(handle);
      RankHandle.ALL.remove(handle.handle());
    }
  }
}
