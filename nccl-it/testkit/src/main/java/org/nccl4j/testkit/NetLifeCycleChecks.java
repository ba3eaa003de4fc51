package org.nccl4j.testkit;

import java.util.List;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.NcclException;

/** Checks the start and the end of a network's connections. */
final class NetLifeCycleChecks {
  private static final int ROUNDS = 20;
  private static final int LOOKS = 300;

  private final NetContract contract;

  NetLifeCycleChecks(NetContract contract) {
    this.contract = contract;
  }

  List<Check> all() {
    return List.of(
        new Check("a handle fits, and other bytes are refused", this::handles),
        new Check("a peer without the secret is refused", this::strangers),
        new Check("closing twice does nothing", this::closedTwice),
        new Check("messages to a closed end fail", this::otherCloses),
        new Check("closed, nothing is left", this::leavesNothing));
  }

  private void handles() {
    try (Net net = contract.provider().open(NetPair.context(0, 1, contract.settings()))) {
      NetListener listener = net.listen(0);
      int length = listener.handle().length;
      Expect.that(length <= NetListener.HANDLE_BYTES, "a handle of %d bytes", length);
      Expect.failure("connecting to nonsense", () -> net.connect(0, new byte[] {9, 9, 9}));
    }
  }

  private void strangers() {
    try (Net net = contract.provider().open(NetPair.context(0, 1, contract.settings()));
        Net stranger = contract.provider().open(NetPair.context(1, 2, contract.settings()))) {
      NetListener listener = net.listen(0);
      try {
        NetSender sender = stranger.connect(0, listener.handle());
        for (int look = 0; look < LOOKS; look++) {
          NetReceiver receiver = listener.accept();
          Expect.that(receiver == null, "a stranger was accepted");
          Expect.that(!sender.isConnected(), "a stranger is connected");
          Thread.yield();
        }
      } catch (NcclException e) {
        Expect.that(!e.remedy().isEmpty(), "an error without a remedy: %s", e);
      }
    }
  }

  private void closedTwice() {
    NetPair pair = new NetPair(contract);
    pair.sender.close();
    pair.sender.close();
    pair.receiver.close();
    pair.receiver.close();
    pair.close();
    pair.from.close();
    pair.to.close();
  }

  private void otherCloses() {
    try (NetPair pair = new NetPair(contract)) {
      NetRequest receive = pair.receive(0, 64, 0);
      pair.sender.close();
      try {
        for (int look = 0; look < LOOKS; look++) {
          Expect.that(!receive.test(null), "a message came from a closed sender");
          Thread.yield();
        }
      } catch (NcclException e) {
        Expect.that(!e.remedy().isEmpty(), "an error without a remedy: %s", e);
      }
    }
  }

  private void leavesNothing() {
    for (int warmUp = 0; warmUp < 3; warmUp++) {
      new NetPair(contract).close();
    }
    ProcessFootprint before = ProcessFootprint.now();
    for (int round = 0; round < ROUNDS; round++) {
      new NetPair(contract).close();
    }
    Deadline.awaitEnd(
        () -> ProcessFootprint.now().openFiles() - before.openFiles() < ROUNDS / 2,
        () -> "from %s to %s".formatted(before, ProcessFootprint.now()));
  }
}
