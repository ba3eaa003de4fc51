package org.nccl4j.transport.net.ib;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.transport.net.ib.control.IbHandle;

/** The port of control connections is open as long as something may be dialled. */
class ControlPortTest extends WithRoce {
  @ParameterizedTest
  @CsvSource({"0, false, false", "10s, true, false"})
  void itClosesWithTheLastThatMayBeDialled(String failover, boolean connected, boolean closed) {
    String[] settings = {"NCCL4J_NET_FAILOVER_TIMEOUT", failover};
    try (Net from = new IbProvider().open(FakeVerbs.context(0, settings));
        Net to = new IbProvider().open(FakeVerbs.context(1, settings))) {
      for (int round = 0; round < 2; round++) {
        NetReceiver[] receiver = new NetReceiver[1];
        int port;
        try (NetListener listener = to.listen(0)) {
          port = IbHandle.decode(listener.handle()).port();
          awaitOpen(true, port);
          NetSender sender = from.connect(0, listener.handle());
          IbLink.await(
              () -> {
                receiver[0] = receiver[0] == null ? listener.accept() : receiver[0];
                return sender.isConnected() & receiver[0] != null;
              });
        }
        awaitOpen(connected, port);
        receiver[0].close();
        awaitOpen(closed, port);
      }
    }
  }

  /** A socket that a resting watch has registered closes once the watch is awake. */
  private static void awaitOpen(boolean open, int port) {
    IbLink.await(() -> open == OwnPorts.isOpen(port));
  }
}
