package org.nccl4j.testkit;

import java.io.IOException;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.api.spi.Transport;

/** Two processes, one of which may be killed. */
final class ProcessChecks {
  private static final long SELF = ProcessHandle.current().pid();

  private final CheckedTransport checked;

  ProcessChecks(CheckedTransport checked) {
    this.checked = checked;
  }

  List<Check> all() {
    return List.of(
        new Check("two processes exchange 40 steps", this::exchange),
        new Check("a process killed while connected does not end its peer", this::killedLate),
        new Check("a killed process leaves nothing once another has started", this::killedEarly));
  }

  private void exchange() throws IOException {
    Set<Path> before = files(SELF);
    try (PeerProcess child = new PeerProcess(checked);
        Ends ends = new Ends(checked)) {
      ends.connect(child);
      ends.exchange();
      child.expect("exchanged");
      Expect.equal(Set.of(), files(child.processId()), "files of a connected process");
      Expect.equal(before, files(SELF), "files of this connected process");
      child.tell("close");
      child.expect("closed");
    }
  }

  private void killedLate() throws IOException {
    Set<Path> before = files(SELF);
    try (PeerProcess child = new PeerProcess(checked);
        Ends ends = new Ends(checked)) {
      ends.connect(child);
      ends.exchange();
      child.expect("exchanged");
      child.kill();
      Steps sender = new Steps(ContractContext.LAYOUT, ends.sender.connection());
      Expect.that(sender.send(Ends.STEPS), "a slot was free");
      Expect.equal(Set.of(), files(child.processId()), "files of a killed process");
    }
    Expect.equal(before, files(SELF), "files");
  }

  private void killedEarly() throws IOException {
    long killed;
    try (PeerProcess child = new PeerProcess(checked)) {
      child.expectHandles();
      killed = child.processId();
      child.kill();
    }
    exchange();
    Expect.equal(Set.of(), files(killed), "files of a killed process");
  }

  private Set<Path> files(long processId) {
    return new HashSet<>(checked.filesOf(processId));
  }

  /** This process's ends of two connections, one in each direction. */
  static final class Ends implements AutoCloseable {
    static final long STEPS = 40;

    final Connector sender;
    final Connector receiver;
    private final Transport transport;

    Ends(CheckedTransport checked) {
      ContractContext context = ContractContext.ofTwoProcesses(0, checked.settings());
      PeerInfo peer = context.peers().get(1);
      transport = checked.provider().open(context);
      sender = transport.sender(peer);
      receiver = transport.receiver(peer);
    }

    void connect(PeerProcess child) throws IOException {
      List<byte[]> handles = child.expectHandles();
      child.tellHandles(sender.handle(), receiver.handle());
      connect(sender, receiver, handles.get(0), handles.get(1));
      child.expect("connected");
    }

    void exchange() {
      exchange(sender, receiver);
    }

    /** Connects both with the opposite's sender and receiver. */
    static void connect(
        Connector sender, Connector receiver, byte[] theirSender, byte[] theirReceiver) {
      Deadline.await(
          () -> sender.connect(theirReceiver) & receiver.connect(theirSender),
          () -> sender + "; " + receiver);
    }

    /** Sends and receives all steps. */
    static void exchange(Connector sender, Connector receiver) {
      Steps out = new Steps(ContractContext.LAYOUT, sender.connection());
      Steps in = new Steps(ContractContext.LAYOUT, receiver.connection());
      long[] done = new long[2];
      Deadline.await(
          () -> {
            done[0] += done[0] < STEPS && out.send(done[0]) ? 1 : 0;
            sender.proxy().ifPresent(ProxyHandler::doWork);
            receiver.proxy().ifPresent(ProxyHandler::doWork);
            done[1] += done[1] < STEPS && in.receive(done[1]) ? 1 : 0;
            return done[0] == STEPS && done[1] == STEPS;
          },
          () -> "%d steps were sent, %d received".formatted(done[0], done[1]));
    }

    @Override
    public void close() {
      transport.close();
    }
  }
}
