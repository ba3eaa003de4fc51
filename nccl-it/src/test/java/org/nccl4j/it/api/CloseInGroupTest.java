package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;

/** Memory and streams that are closed between a call in a group and the group's end serve it. */
@Timeout(600)
class CloseInGroupTest {
  /** Large enough that no other mapping of the process is joined to it. */
  private static final int COUNT = 5000;

  private final Ranks ranks = new Ranks(2);
  private final List<DeviceMemory> out = new ArrayList<>();
  private final List<DeviceStream> streams = new ArrayList<>();
  private final List<Long> addresses = new ArrayList<>();

  CloseInGroupTest() throws Exception {
    for (int r = 0; r < 2; r++) {
      out.add(Ranks.floats(COUNT, i -> 0));
      streams.add(Devices.host().createStream());
    }
  }

  @AfterEach
  void close() throws Exception {
    out.forEach(DeviceMemory::close);
    streams.forEach(DeviceStream::close);
    ranks.close();
  }

  /** Where not, an access would end this process. */
  private static boolean isMapped(long address) {
    try {
      return Files.readAllLines(Path.of("/proc/self/maps")).stream()
          .map(line -> line.split("[- ]"))
          .anyMatch(
              range ->
                  address >= Long.parseUnsignedLong(range[0], 16)
                      && address < Long.parseUnsignedLong(range[1], 16));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private void assertMapped() {
    addresses.forEach(address -> assertTrue(isMapped(address), "unmapped under a call"));
  }

  private void allReduceAndClose(UnaryOperator<DeviceMemory> part) {
    Group.run(
        () -> {
          for (int r = 0; r < 2; r++) {
            try (DeviceMemory in = Ranks.floats(COUNT, i -> i + 1)) {
              addresses.add(in.address());
              ranks
                  .communicators
                  .get(r)
                  .allReduce(
                      part.apply(in),
                      out.get(r),
                      COUNT / 2,
                      DataType.FLOAT32,
                      RedOp.SUM,
                      streams.get(r));
            }
          }
          assertMapped();
        });
  }

  private void assertSums(int from) {
    for (int r = 0; r < 2; r++) {
      streams.get(r).synchronize();
      for (int i = 0; i < COUNT / 2; i++) {
        assertEquals(2f * (from + i + 1), Ranks.floats(out.get(r))[i]);
      }
    }
  }

  @Test
  void collectives() {
    allReduceAndClose(in -> in);
    assertSums(0);
  }

  @Test
  void slices() {
    allReduceAndClose(in -> in.slice(4L * (COUNT / 2), 4L * (COUNT / 2)));
    assertSums(COUNT / 2);
  }

  @Test
  void sendsAndReceives() {
    Group.run(
        () -> {
          for (int r = 0; r < 2; r++) {
            try (DeviceMemory in = Ranks.floats(COUNT, i -> i + 1)) {
              addresses.add(in.address());
              var comm = ranks.communicators.get(r);
              comm.send(in, COUNT, DataType.FLOAT32, 1 - r, streams.get(r));
              comm.recv(out.get(r), COUNT, DataType.FLOAT32, 1 - r, streams.get(r));
            }
          }
          assertMapped();
        });
    for (int r = 0; r < 2; r++) {
      streams.get(r).synchronize();
      assertEquals(COUNT, Ranks.floats(out.get(r))[COUNT - 1]);
    }
  }

  /** The scalar is read when the operation runs. */
  @Test
  void scalarsOfOperators() {
    Group.run(
        () -> {
          for (int r = 0; r < 2; r++) {
            try (DeviceMemory in = Ranks.floats(COUNT, i -> i);
                DeviceMemory scalar = Ranks.floats(1024, i -> 3)) {
              addresses.add(in.address());
              addresses.add(scalar.address());
              ranks
                  .communicators
                  .get(r)
                  .allReduce(
                      in,
                      out.get(r),
                      COUNT,
                      DataType.FLOAT32,
                      ReductionOperator.preMulSum(DataType.FLOAT32, scalar),
                      streams.get(r));
            }
          }
          assertMapped();
        });
    for (int r = 0; r < 2; r++) {
      streams.get(r).synchronize();
      assertEquals(6f * (COUNT - 1), Ranks.floats(out.get(r))[COUNT - 1]);
    }
  }

  @Test
  void streamsServeTheCallsBeforeTheirClose() {
    Group.run(
        () -> {
          for (int r = 0; r < 2; r++) {
            DeviceMemory data = out.get(r);
            var comm = ranks.communicators.get(r);
            DeviceStream stream = streams.get(r);
            data.write(0, ByteBuffer.allocate(4).order(ByteOrder.nativeOrder()).putFloat(0, r + 1));
            comm.allReduce(data, data, 1, DataType.FLOAT32, RedOp.SUM, stream);
            stream.close();
          }
        });
    streams.forEach(DeviceStream::synchronize);
    out.forEach(data -> assertEquals(3, Ranks.floats(data)[0]));
    InvalidUsageException e =
        assertThrows(
            InvalidUsageException.class,
            () ->
                ranks
                    .communicators
                    .get(0)
                    .send(out.get(0), 1, DataType.FLOAT32, 0, streams.get(0)));
    assertEquals(ErrorId.CLOSED, e.id());
  }

  /** A buffer that an operation does not look at may be closed. */
  @Test
  void unusedBuffersMayBeClosed() {
    DeviceMemory closed = Ranks.floats(COUNT, i -> 0);
    closed.close();
    Group.run(
        () -> {
          for (int r = 0; r < 2; r++) {
            ranks
                .communicators
                .get(r)
                .reduce(
                    out.get(r),
                    r == 0 ? out.get(0) : closed,
                    COUNT,
                    DataType.FLOAT32,
                    RedOp.SUM,
                    0,
                    streams.get(r));
          }
        });
    streams.forEach(DeviceStream::synchronize);
    assertFalse(closed.isOpen());
  }

  /** No elements need no buffer. */
  @Test
  void nothingIsSentOfNoBuffer() {
    DeviceMemory closed = Ranks.floats(COUNT, i -> 0);
    closed.close();
    for (int again = 0; again < 2; again++) {
      Group.run(
          () -> {
            for (int r = 0; r < 2; r++) {
              var comm = ranks.communicators.get(r);
              comm.send(r == 0 ? null : closed, 0, DataType.FLOAT32, 1 - r, streams.get(r));
              comm.recv(r == 0 ? closed : null, 0, DataType.FLOAT32, 1 - r, streams.get(r));
            }
          });
      streams.forEach(DeviceStream::synchronize);
    }
    assertFalse(closed.isOpen());
  }
}
