package org.nccl4j.transport.net;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.Leases;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.support.KeptMemory;

/** The end of a connection's ends, over a network that only notes what is closed. */
class NetEndTest {
  private final List<String> closed = new ArrayList<>();

  /** What the close of something throws. */
  private final Map<String, RuntimeException> failures = new HashMap<>();

  private static final NetDevice CARD =
      new NetDevice("card0", "", 1, 1, 1000, 1, Set.of(NetDevice.Pointers.HOST), 1, 1 << 20);

  private boolean isThere = true;

  private <T> T fake(Class<T> type, String name, InvocationHandler others) {
    InvocationHandler handler =
        (proxy, method, args) -> {
          if (method.getName().equals("close")) {
            closed.add(name);
            if (failures.containsKey(name)) {
              throw failures.get(name);
            }
            return null;
          }
          return method.getName().equals("toString") ? name : others.invoke(proxy, method, args);
        };
    return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
  }

  private Object ofConnection(Method method, Object[] args) {
    return switch (method.getName()) {
      case "register" -> fake(NetMemory.class, "memory", (p, m, a) -> args[0]);
      case "isConnected" -> isThere;
      default -> throw new AssertionError(method);
    };
  }

  private Net net() {
    return fake(
        Net.class,
        "net",
        (proxy, method, args) ->
            switch (method.getName()) {
              case "devices" -> List.of(CARD);
              case "unprotected" -> Optional.empty();
              case "carriesNotes" -> true;
              case "connect" -> fake(NetSender.class, "sender", (p, m, a) -> ofConnection(m, a));
              case "listen" ->
                  fake(
                      NetListener.class,
                      "listener",
                      (p, m, a) ->
                          m.getName().equals("handle")
                              ? new byte[4]
                              : isThere
                                  ? fake(
                                      NetReceiver.class,
                                      "receiver",
                                      (q, n, b) -> ofConnection(n, b))
                                  : null);
              default -> throw new AssertionError(method);
            });
  }

  private static final Map<String, Object> VALUES =
      Map.of(
          "device",
          HostDevice.instance(),
          "layout",
          HostDevice.instance().connectionLayout(2),
          "rank",
          0,
          "proxySteps",
          Optional.empty(),
          "get",
          "off"); // of NCCL4J_NET_ZERO_COPY

  private static TransportContext context() {
    return context(VALUES);
  }

  private static TransportContext context(Map<String, Object> values) {
    return (TransportContext)
        Proxy.newProxyInstance(
            TransportContext.class.getClassLoader(),
            new Class<?>[] {TransportContext.class},
            (proxy, method, args) -> values.get(method.getName()));
  }

  private NicChoice card() {
    return new NicChoice("Test", net(), 0, null, false);
  }

  private static PeerInfo peer() {
    return new PeerInfo(1, "h", "ns", "p", 0, Device.Kind.HOST, "host");
  }

  private SendConnector sender(boolean connected) {
    isThere = connected;
    SendConnector end = new SendConnector(card(), context(), peer(), NetEnd.OPERATIONS);
    assertEquals(connected, end.connect(HandleList.join(List.of(new byte[4]))));
    return end;
  }

  private RecvConnector receiver(boolean connected) {
    isThere = connected;
    RecvConnector end = new RecvConnector(card(), context(), peer(), false, NetEnd.OPERATIONS);
    assertEquals(connected, end.connect(new byte[0]));
    return end;
  }

  private static boolean isFreed(NetEnd end) {
    DeviceMemory data = end.connection().data();
    return Leases.of(data).isOver();
  }

  private static TimeoutException late() {
    return new TimeoutException(ErrorId.STILL_RUNNING, "a thread is inside", "look at it");
  }

  @Test
  void aConnectedEndClosesItsMemoriesThenTheNetwork() {
    SendConnector end = sender(true);
    assertFalse(isFreed(end));
    end.close();
    assertEquals("sender", closed.get(closed.size() - 1));
    assertEquals(List.of("memory", "sender"), closed.stream().distinct().toList());
    assertTrue(isFreed(end));
  }

  @Test
  void anEndThatNobodyHasReachedClosesWhatItHas() {
    NetEnd sends = sender(false);
    NetEnd receives = receiver(false);
    sends.close();
    receives.close();
    assertEquals(List.of("sender", "listener"), closed);
    assertTrue(isFreed(sends) && isFreed(receives));
  }

  @Test
  void aReceiverClosesItsListenerOnceItIsConnected() {
    NetEnd end = receiver(true);
    assertEquals(List.of("listener"), closed);
    end.close();
    assertTrue(closed.contains("receiver"));
    assertTrue(isFreed(end));
  }

  @Test
  void closedTwiceItFreesOnce() {
    NetEnd end = sender(true);
    end.close();
    int calls = closed.size();
    end.close();
    assertEquals(calls, closed.size());
  }

  @Test
  void memoryThatAThreadMayStillUseIsKept() {
    NetEnd end = sender(true);
    failures.put("sender", late());
    end.close();
    assertTrue(KeptMemory.has(end));
    assertFalse(isFreed(end));
    failures.clear();
    end.close();
    assertFalse(isFreed(end), "kept for the life of the process");
  }

  @Test
  void memoryIsFreedWhereTheNetworkFailsOtherwise() {
    for (String what : List.of("memory", "sender")) {
      NetEnd end = sender(true);
      closed.clear();
      RuntimeException failure = new InternalErrorException("broken", "report this");
      failures.put(what, failure);
      assertSame(failure, assertThrows(RuntimeException.class, end::close));
      failures.clear();
      assertTrue(closed.contains("sender"), what);
      assertTrue(isFreed(end), what);
    }
  }

  @Test
  void allMemoriesAreForgottenWhereOneCannotBe() {
    NetEnd end = sender(true);
    failures.put("memory", new InternalErrorException("broken", "report this"));
    assertThrows(RuntimeException.class, end::close);
    long forgotten = closed.stream().filter("memory"::equals).count();
    assertEquals(ConnectionLayout.STEPS, forgotten, "each slot's");
  }

  /** One adapter or driver that fails keeps nothing else open. */
  @Test
  void aTransportClosesAllEndsAndNetworksWhateverFails() {
    Map<String, Object> values = new HashMap<>(VALUES);
    values.put("secret", new byte[16]);
    values.put("egressTo", Optional.empty());
    values.put("egressFrom", Optional.empty());
    values.put("takesTurns", false);
    values.put("isNeighbour", true);
    values.put("nearestNets", List.of());
    values.put("nets", List.of(provider("A"), provider("B")));
    values.put("peers", List.of(peer(0, "A", "B"), peer(1, "A"), peer(2, "B")));
    NetTransport transport = new NetTransport(context(values));
    for (PeerInfo peer : List.of(peer(1, "A"), peer(2, "B"))) {
      transport.sender(peer).connect(HandleList.join(List.of(new byte[4])));
    }
    RuntimeException failure = new InternalErrorException("broken", "report this");
    failures.put("sender", failure);
    failures.put("net", failure);
    assertSame(failure, assertThrows(RuntimeException.class, transport::close));
    assertEquals(List.of("sender", "sender", "net", "net"), closedBut("memory"));
  }

  private List<String> closedBut(String what) {
    return closed.stream().filter(each -> !each.equals(what)).toList();
  }

  private static PeerInfo peer(int rank, String... nets) {
    return new PeerInfo(
        rank, "h" + rank, "ns", "p" + rank, 0, Device.Kind.HOST, "host", List.of(nets));
  }

  private NetProvider provider(String name) {
    return fake(
        NetProvider.class,
        "provider",
        (proxy, method, args) -> method.getName().equals("open") ? net() : name);
  }

  @Test
  void whatIsNotConnectedIsFreedWhereItCannotBeClosed() {
    for (String what : List.of("sender", "listener")) {
      NetEnd end = what.equals("sender") ? sender(false) : receiver(false);
      failures.put(what, late());
      assertThrows(TimeoutException.class, end::close);
      failures.clear();
      assertTrue(isFreed(end), what);
    }
  }
}
