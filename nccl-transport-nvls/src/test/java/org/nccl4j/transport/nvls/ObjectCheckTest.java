package org.nccl4j.transport.nvls;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.multicast.MulticastProvider.Exchange;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.symmetric.MulticastMemory;

/** The check of a multicast object, on memories of this process, with devices that err. */
@Timeout(600)
class ObjectCheckTest {
  private final List<DeviceMemory> memories = new ArrayList<>();

  /** A device whose accesses are the host's, but for one. */
  private static KernelDevice device(Faults faults) {
    return (KernelDevice)
        Proxy.newProxyInstance(
            ObjectCheckTest.class.getClassLoader(),
            new Class<?>[] {KernelDevice.class},
            (proxy, method, arguments) -> {
              if (method.getName().equals("storeToAll") && faults.stores((long) arguments[2])) {
                return null;
              }
              Object result;
              try {
                result = method.invoke(HostDevice.instance(), arguments);
              } catch (InvocationTargetException e) {
                throw e.getCause();
              }
              if (method.getName().equals("loadCombined")) {
                faults.loaded(
                    (DataType) arguments[1], (RedOp) arguments[2], (DeviceMemory) arguments[4]);
              }
              return result;
            });
  }

  /** Errors of a device: none. */
  private static class Faults {
    boolean stores(long offset) {
      return false;
    }

    void loaded(DataType type, RedOp op, DeviceMemory target) {}
  }

  /** Runs the check on all members at once; the reason of each, or that it is good. */
  private List<String> check(int members, int broken, Faults faults) {
    CyclicBarrier barrier = new CyclicBarrier(members);
    byte[][] given = new byte[members][];
    for (int member = 0; member < members; member++) {
      memories.add(HostDevice.instance().allocate(ObjectCheck.BYTES + 64));
    }
    MulticastMemory all = new MulticastMemory(/* emulated= */ true, memories);
    List<CompletableFuture<String>> results = new ArrayList<>();
    for (int member = 0; member < members; member++) {
      int mine = member;
      KernelDevice device = device(mine == broken ? faults : new Faults());
      Exchange exchange =
          new Exchange() {
            @Override
            public List<byte[]> allGather(byte[] message) {
              try {
                given[mine] = message;
                barrier.await(300, TimeUnit.SECONDS);
                List<byte[]> copy = List.copyOf(Arrays.asList(given));
                barrier.await(300, TimeUnit.SECONDS);
                return copy;
              } catch (Exception e) {
                throw new IllegalStateException(e);
              }
            }

            @Override
            public long endNanos() {
              return System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
            }
          };
      DeviceMemory spare = HostDevice.instance().allocate(ObjectCheck.BYTES);
      CompletableFuture<String> result = new CompletableFuture<>();
      results.add(result);
      Thread thread =
          new Thread(
              () -> {
                try {
                  new ObjectCheck(
                          device, memories.get(mine), spare, all, mine, members, /* bytes= */ true)
                      .run(new CollectiveSteps(exchange));
                  result.complete("good");
                } catch (CollectiveSteps.Refused e) {
                  result.complete(e.getMessage());
                } catch (RuntimeException | Error e) {
                  result.completeExceptionally(e);
                }
              });
      thread.start();
    }
    return results.stream().map(CompletableFuture::join).distinct().toList();
  }

  @ParameterizedTest
  @ValueSource(ints = {2, 3, 8, 72})
  void aGoodObjectPassesAndIsLeftWithZeros(int members) {
    assertEquals(List.of("good"), check(members, -1, new Faults()));
    for (DeviceMemory memory : memories) {
      ByteBuffer bytes = ByteBuffer.allocate((int) memory.size());
      memory.read(0, bytes);
      assertArrayEquals(new byte[bytes.capacity()], bytes.array());
      memory.close();
    }
  }

  /** One bit of one result of any type and operator, anywhere in it. */
  @ParameterizedTest
  @CsvSource({
    "INT32, SUM, 3",
    "UINT32, MAX, 495",
    "INT64, MIN, 100",
    "UINT64, SUM, 7",
    "FLOAT16, SUM, 1",
    "FLOAT32, SUM, 494",
    "FLOAT64, SUM, 17",
    "BFLOAT16, MIN, 32"
  })
  void oneWrongBitOnOneRankRefusesAll(DataType type, RedOp op, int at) {
    Faults faults =
        new Faults() {
          @Override
          void loaded(DataType loaded, RedOp by, DeviceMemory target) {
            if (loaded == type && by == op && at < target.size()) {
              ByteBuffer one = ByteBuffer.allocate(1);
              target.read(at, one);
              one.put(0, (byte) (one.get(0) ^ 1));
              target.write(at, one.flip());
            }
          }
        };
    List<String> reasons = check(3, 1, faults);
    assertEquals(1, reasons.size(), reasons::toString);
    String where =
        "rank 1 cannot have right results of its multicast object: byte %d of the %s of %s is 0x"
            .formatted(at, op.label(), type.label());
    assertTrue(reasons.get(0).startsWith(where), reasons.get(0));
  }

  @Test
  void aStoreThatDoesNotArriveRefusesAll() {
    Faults faults =
        new Faults() {
          @Override
          boolean stores(long offset) {
            return true;
          }
        };
    List<String> reasons = check(3, 2, faults);
    assertEquals(1, reasons.size(), reasons::toString);
    assertTrue(
        reasons.get(0).startsWith("rank 0 cannot see all stores by its multicast object"),
        reasons.get(0));
  }
}
