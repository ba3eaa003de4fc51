package org.nccl4j.api.init;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.bootstrap.LocalBootstrap;
import org.nccl4j.api.init.connect.NamedProvider;
import org.nccl4j.api.init.connect.TransportRoutes;
import org.nccl4j.api.init.engine.NvlsSetup;
import org.nccl4j.api.init.engine.Profilers;
import org.nccl4j.api.init.engine.SharedResources;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.observe.flight.FlightReader;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.Transport;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.support.KeptMemory;
import org.nccl4j.operation.Operation;

class InitializerTest {
  private static final Duration LONG = Duration.ofSeconds(50);

  private static InitRequest request(Map<String, String> settings) {
    return new InitRequest("one", HostDevice.instance(), Settings.ofProcess(settings));
  }

  @Test
  void theDeadlineOfTheCreationEndsWithIt() {
    Bootstrap bootstrap = LocalBootstrap.create(1, LONG).get(0);
    assertEquals(bootstrap.exchangeEnd(), bootstrap.exchangeEnd());
    CommunicatorState made = Initializer.create(request(Map.of()), bootstrap);
    long end = bootstrap.exchangeEnd();
    assertTrue(bootstrap.exchangeEnd() - end > 0);
    made.suspend();
    made.resume();
    end = bootstrap.exchangeEnd();
    assertTrue(bootstrap.exchangeEnd() - end > 0);
    made.close(LONG);
  }

  @Test
  void whatIsMadeAnewHasOneDeadlineToo() {
    Bootstrap bootstrap = LocalBootstrap.create(1, LONG).get(0);
    bootstrap.made();
    InitRequest wrong = request(Map.of("NCCL4J_TRANSPORTS", "none such"));
    Profilers none = Profilers.open(request(Map.of()), 0, 1);
    assertThrows(
        InvalidArgumentException.class,
        () -> Initializer.again(wrong, bootstrap, none, made -> made));
    assertEquals(bootstrap.exchangeEnd(), bootstrap.exchangeEnd());
  }

  /** A bootstrap that fails at the end, when everything else has been made. */
  private static Bootstrap failing(RuntimeException failure, List<String> calls) {
    Bootstrap bootstrap = LocalBootstrap.create(1, LONG).get(0);
    return (Bootstrap)
        Proxy.newProxyInstance(
            Bootstrap.class.getClassLoader(),
            new Class<?>[] {Bootstrap.class},
            (proxy, method, args) -> {
              calls.add(method.getName());
              if (method.getName().equals("made")) {
                throw failure;
              }
              return method.invoke(bootstrap, args);
            });
  }

  @Test
  void aFailureAtTheEndIsToldAndEverythingIsFreed() {
    List<String> calls = new ArrayList<>();
    Bootstrap bootstrap = failing(new IllegalStateException("broken"), calls);
    NcclException e =
        assertThrows(
            InternalErrorException.class, () -> Initializer.create(request(Map.of()), bootstrap));
    assertTrue(e.getMessage().contains("broken"), e.getMessage());
    List<String> end = calls.subList(calls.indexOf("made"), calls.size());
    assertEquals(List.of("made", "tellFailure", "close"), end);
  }

  /** As a log that the program has stopped: the line of the memory is one of the last. */
  @Test
  void nothingIsObservedAfterALogThatFails() {
    Handler broken =
        new Handler() {
          @Override
          public void publish(LogRecord line) {
            throw new IllegalStateException("the log is stopped");
          }

          @Override
          public void flush() {}

          @Override
          public void close() {}
        };
    Logger log = Logger.getLogger("org.nccl4j.ALLOC");
    log.addHandler(broken);
    try {
      Settings settings =
          Settings.ofProcess(Map.of("NCCL_DEBUG", "INFO", "NCCL_DEBUG_SUBSYS", "ALLOC"));
      InitRequest request = new InitRequest("unlogged", HostDevice.instance(), settings);
      Bootstrap bootstrap = LocalBootstrap.create(1, LONG).get(0);
      NcclException e =
          assertThrows(InternalErrorException.class, () -> Initializer.create(request, bootstrap));
      assertTrue(e.getMessage().contains("the log is stopped"), e.getMessage());
    } finally {
      log.removeHandler(broken);
    }
    List<String> observed =
        FlightReader.ofThisProcess(Operation.keys()).stream().map(RankReport::name).toList();
    assertFalse(observed.contains("unlogged"), observed::toString);
  }

  @Test
  void wrongNamesAreFoundBeforeTheRanksMeet() {
    for (String setting : List.of("NCCL_ALGO", "NCCL_PROTO")) {
      List<String> calls = new ArrayList<>();
      Bootstrap bootstrap = failing(new IllegalStateException("made"), calls);
      assertThrows(
          InvalidArgumentException.class,
          () -> Initializer.create(request(Map.of(setting, "nonsense")), bootstrap));
      assertFalse(calls.contains("allGather"), calls::toString);
      assertTrue(calls.contains("tellFailure"), calls::toString);
    }
  }

  private static SharedResources resources(List<String> freed, boolean idle) {
    KernelCommunicator kernels = of(KernelCommunicator.class, "kernels", freed, idle);
    Transport transport = of(Transport.class, "transport", freed, idle);
    NvlsSetup none = NvlsSetup.none();
    return new SharedResources(
        new InitRequest("busy", HostDevice.instance(), Settings.alone(Map.of())),
        LocalBootstrap.create(1, LONG).get(0),
        kernels,
        new SharedResources.Links(
            List.of(new TransportRoutes.NamedTransport(new NamedProvider("T", true), transport)),
            List.of(),
            List.of(),
            null,
            null),
        none);
  }

  private static <T> T of(Class<T> type, String name, List<String> freed, boolean idle) {
    return type.cast(
        Proxy.newProxyInstance(
            type.getClassLoader(),
            new Class<?>[] {type},
            (proxy, method, args) -> {
              if (method.getName().equals("close")) {
                freed.add(name);
              }
              return method.getReturnType() == boolean.class
                  ? (Object) idle
                  : method.getReturnType() == long.class ? (Object) 8L : null;
            }));
  }

  @Test
  void whatAKernelMayStillUseIsKept() {
    List<String> freed = new ArrayList<>();
    SharedResources busy = resources(freed, /* idle= */ true);
    assertTrue(busy.join());
    busy.leave(LONG, /* idle= */ false);
    busy.leave(LONG, /* idle= */ true);
    assertEquals(List.of(), freed);
    assertTrue(KeptMemory.has(busy));
    SharedResources quiet = resources(freed, /* idle= */ true);
    quiet.leave(LONG, /* idle= */ true);
    assertEquals(List.of("kernels", "transport"), freed);
    assertFalse(KeptMemory.has(quiet));
  }

  @Test
  void ranksAreToldOfAFailureAfterWhichKernelsCannotBeEnded() {
    List<String> calls = new ArrayList<>();
    NcclException cause = new InternalErrorException("it has failed", "none");
    CudaException lost = new CudaException("an abort fails", "none", 700);
    KernelCommunicator kernels =
        (KernelCommunicator)
            Proxy.newProxyInstance(
                KernelCommunicator.class.getClassLoader(),
                new Class<?>[] {KernelCommunicator.class},
                (proxy, method, args) -> {
                  if (method.getName().equals("abort")) {
                    throw lost;
                  }
                  return method.getName().equals("failure") ? cause : null;
                });
    SharedResources resources =
        new SharedResources(
            new InitRequest("failing", HostDevice.instance(), Settings.alone(Map.of())),
            failing(new IllegalStateException("made"), calls),
            kernels,
            new SharedResources.Links(List.of(), List.of(), List.of(), null, null),
            NvlsSetup.none());
    assertSame(lost, assertThrows(CudaException.class, () -> resources.fail(cause)));
    assertTrue(calls.contains("tellFailure"), calls::toString);
  }
}
