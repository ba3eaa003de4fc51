package org.nccl4j.device.host.kernel.protocol;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.RegisteredMemory;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.CallSignature;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.SingleCopy;
import org.nccl4j.device.kernel.Progress;

/** Steps that a kernel exposes to its proxy, one by one. */
@Timeout(600)
class ProxyExposuresTest {
  private static final ConnectionLayout LAYOUT = new ConnectionLayout(512, 384, 256);
  private static final int BYTES = 256;
  private static final int LEAST = 100;
  private static final int AT = 3;
  private static final Call CALL = new Call(CallSignature.ofMessage(BYTES), () -> "a step");
  private static final SingleCopy SIZES = new SingleCopy(8, SingleCopy.NEVER, 8, Level.DEBUG);

  private final HostDevice device = HostDevice.instance();
  private final DeviceMemory data = device.allocate(LAYOUT.dataBytes());
  private final DeviceMemory credit = device.allocate(ConnectionLayout.CREDIT_BYTES);
  private final Connection connection = new Connection(data, credit);
  private final HostMemory source = HostMemory.of(device.memAlloc(2 * BYTES));
  private final HostMemory scratch = HostMemory.of(device.allocate(3 * BYTES));
  private final SpinWait waiter =
      new SpinWait("exposures", 0, Duration.ofSeconds(30), true, Progress.NONE);
  private final Exposures exposures = new Exposures(2);
  private final SendEnd sender = new SendEnd(1, connection, LAYOUT);

  @AfterEach
  void close() {
    Stream.of(data, credit, source, scratch).forEach(DeviceMemory::close);
  }

  private ProxyExposures answered(boolean registered) {
    sender.expose(SIZES, exposures);
    ProxyExposures proxy = new ProxyExposures(connection, LAYOUT, LEAST, registered);
    proxy.answer();
    return proxy;
  }

  private void send(int bytes) {
    Primitives to =
        new SlotPrimitives(
            0,
            waiter,
            CALL,
            new RecvEnd[0],
            new SendEnd[] {sender},
            null,
            1,
            scratch,
            new BufferCopies(),
            false);
    to.mayExpose(true);
    to.send(source, AT, bytes);
  }

  private void sent(long steps) {
    AtomicWords.storeRelease(HostMemory.of(credit), ConnectionLayout.HEAD, steps);
  }

  @Test
  void largeStepsAreExposedOnceTheProxyHasAnswered() {
    sender.expose(SIZES, exposures);
    ProxyExposures proxy = new ProxyExposures(connection, LAYOUT, LEAST, false);
    send(LEAST);
    assertFalse(proxy.isExposed(0), "nobody has answered");
    proxy.answer();
    send(LEAST);
    send(LEAST - 1);
    assertFalse(proxy.isExposed(0));
    assertTrue(proxy.isExposed(1));
    assertFalse(proxy.isExposed(2), "less than is exposed");
    assertSame(source, proxy.memory(1));
    assertEquals(AT, proxy.offset(1));
    assertTrue(proxy.begin(1));
    sent(3);
    exposures.settle(waiter);
    assertFalse(exposures.exist());
  }

  @Test
  void onlyRegisteredMemoryIsExposedIfTheNetworkAsksForThat() {
    ProxyExposures proxy = answered(true);
    send(LEAST);
    try (RegisteredMemory registered = RegisteredMemory.of(source.slice(0, BYTES))) {
      send(LEAST);
      assertSame(registered, RegisteredMemory.find(source, source.address() + AT, LEAST));
      assertNull(RegisteredMemory.find(source, source.address() + BYTES - 1, 2), "beyond its end");
      assertNull(RegisteredMemory.find(scratch, source.address(), 1), "of another memory");
    }
    assertNull(RegisteredMemory.find(source, source.address() + AT, LEAST), "it has ended");
    send(LEAST);
    assertFalse(proxy.isExposed(0));
    assertTrue(proxy.isExposed(1));
    assertFalse(proxy.isExposed(2));
  }

  @Test
  void aRegistrationEndsWithItsMemory() {
    HostMemory memory = HostMemory.of(device.memAlloc(BYTES));
    long address = memory.address();
    try (RegisteredMemory registered = RegisteredMemory.of(memory)) {
      assertTrue(registered.isOpen());
      memory.close();
      assertFalse(registered.isOpen());
      assertNull(RegisteredMemory.find(memory, address, 1));
    }
  }

  @Test
  void aProcessorOfAnotherHostReachesNothing() {
    answered(false);
    assertFalse(sender.offer(waiter, source, null, 0, CALL));
  }

  @Test
  void whatTheNetworkRefusesIsCopiedIntoTheSlot() {
    ProxyExposures proxy = answered(false);
    source.fill((byte) 7);
    send(BYTES - AT);
    proxy.fill(0, BYTES - AT);
    HostMemory slots = HostMemory.of(data);
    long slot = LAYOUT.simple(0);
    assertEquals(7, slots.window(slot).get(slots.index(slot)));
    assertEquals(7, slots.window(slot).get(slots.index(slot) + BYTES - AT - 1));
  }

  /** The proxy gives up steps that are being sent, and nothing more is read. */
  @Test
  void aFailedKernelGetsItsBuffersBack() {
    ProxyExposures proxy = answered(false);
    send(LEAST);
    send(LEAST);
    assertTrue(proxy.begin(0));
    AtomicInteger returned = new AtomicInteger();
    Progress progress =
        new Progress() {
          @Override
          public int doWork() {
            return 0;
          }

          @Override
          public void kernelEnded() {}

          @Override
          public void endExposures() {
            assertFalse(proxy.begin(1), "revoked before");
            returned.incrementAndGet();
            proxy.end();
          }
        };
    exposures.revoke(Long.MAX_VALUE, progress);
    assertEquals(1, returned.get());
    assertFalse(exposures.exist());
  }
}
