package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.ExpertConfig;
import org.nccl4j.api.ExpertExchange;
import org.nccl4j.api.ReceiveHook;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;

/** Exchanges with experts that are closed, suspended or called at the wrong time. */
@Timeout(600)
class ExpertMisuseTest {
  private static final ExpertConfig SIZES =
      new ExpertConfig(4, 8, 2, 6, DataType.FLOAT32, /* fp8= */ false);

  /** An exchange of a rank, and buffers for four tokens whose experts are all number 0. */
  private static final class Calls implements AutoCloseable {
    final ExpertExchange exchange;
    final DeviceStream stream;
    final DeviceMemory tokens = Devices.host().allocate(4 * 32);
    final DeviceMemory experts = Devices.host().allocate(4 * 8);
    final DeviceMemory outputs = Devices.host().allocate(3 * 4 * 2 * 32);

    Calls(Communicator comm, DeviceStream stream) {
      this.exchange = comm.createExpertExchange(SIZES);
      this.stream = stream;
      experts.fill((byte) 0);
    }

    void dispatch() {
      exchange.dispatch(tokens, experts, experts, 4, stream);
    }

    ReceiveHook beginDispatch() {
      return exchange.beginDispatch(tokens, experts, experts, 4, stream);
    }

    ReceiveHook beginCombine() {
      return exchange.beginCombine(outputs, tokens, stream);
    }

    void combine() {
      exchange.combine(outputs, tokens, stream);
    }

    void setExpert(int token, int k, int expert) {
      experts.write(
          (long) (token * SIZES.topK() + k) * Integer.BYTES,
          ByteBuffer.allocate(Integer.BYTES).order(ByteOrder.nativeOrder()).putInt(0, expert));
    }

    /** All rows that the last dispatch has received. */
    int rows() {
      DeviceMemory offsets = exchange.offsets();
      ByteBuffer last = ByteBuffer.allocate(Integer.BYTES).order(ByteOrder.nativeOrder());
      offsets.read(offsets.size() - Integer.BYTES, last);
      return last.getInt(0);
    }

    /** The bytes of those rows. */
    ByteBuffer received() {
      ByteBuffer bytes = ByteBuffer.allocate(rows() * SIZES.hidden() * Float.BYTES);
      if (bytes.hasRemaining()) {
        exchange.received().read(0, bytes);
      }
      return bytes.clear();
    }

    boolean isFreed() {
      return !exchange.received().isOpen();
    }

    @Override
    public void close() {
      exchange.close();
      tokens.close();
      experts.close();
      outputs.close();
    }
  }

  @Test
  void closeIsRefusedUntilWhatWasBegunIsReceived() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            try (Calls calls = new Calls(comm, stream)) {
              ReceiveHook dispatch = calls.beginDispatch();
              assertCloseIsRefused(calls, "dispatch", "beginDispatch");
              dispatch.receive(stream);
              ReceiveHook combine = calls.beginCombine();
              assertCloseIsRefused(calls, "combine", "beginCombine");
              combine.receive(stream);
              stream.synchronize();
              calls.exchange.close();
              assertTrue(calls.isFreed());
            }
          });
    }
  }

  private static void assertCloseIsRefused(Calls calls, String call, String begin) {
    InvalidUsageException e =
        assertThrows(InvalidUsageException.class, () -> calls.exchange.close());
    assertTrue(e.problem().startsWith("close of an exchange with experts on rank "), e.problem());
    assertTrue(e.problem().endsWith("the last " + call + " was begun and not received"));
    assertTrue(e.remedy().contains("receive of what " + begin + " returned"), e.remedy());
    assertFalse(calls.isFreed());
  }

  /** Nobody can receive any more, so that close frees. */
  @Test
  void closeFreesWhatWasBegunAfterAFailureAndAfterTheCommunicator() throws Exception {
    for (Consumer<Communicator> end :
        List.<Consumer<Communicator>>of(Communicator::abort, Communicator::close)) {
      try (Ranks ranks = new Ranks(2)) {
        Calls[] all = new Calls[2];
        ranks.run(
            (comm, stream) -> {
              all[comm.rank()] = new Calls(comm, stream);
              all[comm.rank()].beginDispatch();
              stream.synchronize();
            });
        ranks.communicators.forEach(end);
        for (Calls calls : all) {
          calls.close();
          assertTrue(calls.isFreed());
        }
      }
    }
  }

  @Test
  void aCommunicatorWithAnExchangeIsNotSuspended() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            try (Calls calls = new Calls(comm, stream)) {
              InvalidUsageException e = assertThrows(InvalidUsageException.class, comm::suspend);
              assertTrue(e.problem().contains("exchanges with experts"), e.problem());
              assertFalse(comm.isSuspended());
              calls.dispatch();
              calls.combine();
              stream.synchronize();
            }
            comm.suspend();
            comm.resume();
            try (Calls calls = new Calls(comm, stream)) {
              calls.dispatch();
              calls.combine();
              stream.synchronize();
            }
          });
    }
  }

  /** Two exchanges of equal sizes: a rank must not take the other exchange's tokens. */
  @Test
  void ranksThatDispatchByDifferentExchangesAreToldAndGoOn() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            try (Calls first = new Calls(comm, stream);
                Calls second = new Calls(comm, stream)) {
              Calls wrong = comm.rank() == 0 ? first : second;
              InvalidUsageException e = assertThrows(InvalidUsageException.class, wrong::dispatch);
              assertEquals(ErrorId.CALLS_DIFFER, e.id());
              assertTrue(
                  e.problem().contains("rank 0 dispatches by exchange 1 and rank 1 by exchange 2"),
                  e.problem());
              second.dispatch();
              second.combine();
              first.dispatch();
              stream.synchronize();
            }
          });
    }
  }

  /** Before, the other ranks waited for it until their deadline. */
  @Test
  void anExpertOfOneRankThatDoesNotExistIsAnErrorOfAllAndChangesNothing() throws Exception {
    try (Ranks ranks = new Ranks(3)) {
      ranks.run(
          (comm, stream) -> {
            try (Calls calls = new Calls(comm, stream);
                DeviceMemory tokens = floats(comm.rank() + 1, 4 * 8);
                DeviceMemory weights = floats(3, 4 * 2);
                DeviceMemory otherTokens = floats(500, 4 * 8);
                DeviceMemory otherWeights = floats(70, 4 * 2)) {
              calls.exchange.dispatch(tokens, calls.experts, weights, 4, stream);
              stream.synchronize();
              int rows = calls.rows();
              assertEquals(comm.rank() == 0 ? 3 * 4 * 2 : 0, rows);
              ByteBuffer received = calls.received();
              if (comm.rank() == 1) {
                calls.setExpert(2, 1, 6);
              }
              InvalidArgumentException e =
                  assertThrows(
                      InvalidArgumentException.class,
                      () ->
                          calls.exchange.dispatch(
                              otherTokens, calls.experts, otherWeights, 3, stream));
              assertTrue(
                  e.problem()
                      .endsWith("token 2 of rank 1 has the expert 6 as number 1 of its experts"),
                  e.problem());
              assertEquals("pass 0 to 5, or -1 for no expert", e.remedy());
              stream.synchronize();
              assertEquals(rows, calls.rows());
              assertEquals(received, calls.received());
              if (rows > 0) {
                calls.outputs.write(0, received.duplicate());
              }
              calls.exchange.combine(calls.outputs, otherTokens, stream);
              stream.synchronize();
              for (int n = 0; n < 4 * 8; n++) {
                int token = n / 8;
                float sum = (3 + 2 * token) + (3 + 2 * token + 1);
                assertEquals(sum * (comm.rank() + 1 + n), floatAt(otherTokens, n), "element " + n);
              }
              if (comm.rank() == 1) {
                calls.setExpert(2, 1, -1);
              }
              calls.dispatch();
              calls.combine();
              stream.synchronize();
              assertEquals(comm.rank() == 0 ? rows - 1 : rows, calls.rows());
            }
          });
    }
  }

  /** Numbers from a first one on. */
  private static DeviceMemory floats(int first, int count) {
    ByteBuffer values = ByteBuffer.allocate(count * Float.BYTES).order(ByteOrder.nativeOrder());
    for (int n = 0; n < count; n++) {
      values.putFloat(n * Float.BYTES, first + n);
    }
    DeviceMemory memory = Devices.host().allocate(values.capacity());
    memory.write(0, values);
    return memory;
  }

  private static float floatAt(DeviceMemory memory, int n) {
    ByteBuffer value = ByteBuffer.allocate(Float.BYTES).order(ByteOrder.nativeOrder());
    memory.read((long) n * Float.BYTES, value);
    return value.getFloat(0);
  }

  @Test
  void ranksThatDispatchAndCombineAreTold() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            try (Calls calls = new Calls(comm, stream)) {
              calls.dispatch();
              stream.synchronize();
              NcclException e =
                  assertThrows(
                      NcclException.class,
                      () -> {
                        if (comm.rank() == 0) {
                          calls.dispatch();
                        } else {
                          calls.combine();
                        }
                        stream.synchronize();
                      });
              assertEquals(ErrorId.CALLS_DIFFER, e.id(), e.toString());
            }
          });
    }
  }
}
