package org.nccl4j.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.operation.Operation;

/** Views and sizes of calls in a communicator of one rank. */
class CallsOfOneRankTest {
  private final Communicator one =
      Communicator.initAll(List.of(Devices.host()), CommunicatorConfig.defaults()).get(0);

  @AfterEach
  void close() {
    one.close();
  }

  /** A program that makes a view for each call would keep them all. */
  @Test
  void viewsWithTheSameOptionsShareTheirPlans() {
    CallOptions ring = CallOptions.defaults().withAlgorithm("Ring");
    Communicator view = one.withOptions(ring);
    assertSame(view.dispatcher(), one.withOptions(ring).dispatcher());
    assertSame(
        view.dispatcher(),
        one.withOptions(CallOptions.defaults().withAlgorithm("Ring")).dispatcher());
    assertNotSame(
        view.dispatcher(),
        one.withOptions(CallOptions.defaults().withAlgorithm("Tree")).dispatcher());
    CallOptions quantised = CallOptions.defaults().withQuantisation(DataType.INT8, 32);
    assertSame(one.withOptions(quantised).dispatcher(), one.withOptions(quantised).dispatcher());
    try (DeviceMemory errors = one.device().allocate(4)) {
      assertSame(
          one.withOptions(quantised).dispatcher(),
          one.withOptions(quantised.withErrorFeedback(errors)).dispatcher());
    }
    one.close();
    InvalidUsageException e =
        assertThrows(InvalidUsageException.class, () -> one.withOptions(ring));
    assertEquals(ErrorId.CLOSED, e.id());
  }

  @Test
  void countsWhoseBytesCannotBeCountedAreRefused() {
    for (Operation operation :
        List.of(Operation.ALL_REDUCE, Operation.ALL_TO_ALL, Operation.SEND)) {
      for (long count : new long[] {1L << 61, Long.MAX_VALUE}) {
        InvalidArgumentException e =
            assertThrows(
                InvalidArgumentException.class,
                () -> one.chosenAlgorithm(operation, count, DataType.FLOAT64));
        assertEquals(ErrorId.COUNT, e.id(), operation.key());
      }
    }
  }
}
