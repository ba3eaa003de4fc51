package org.nccl4j.testkit;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.List;
import org.nccl4j.device.DeviceMemory;

/** Checks that a closed transport leaves nothing behind. */
final class LifeCycleChecks {
  private static final int ROUNDS = 40;
  private static final int TIMED_CLOSES = 11;
  private static final long MOST_NANOS = 100_000_000;
  private static final long SELF = ProcessHandle.current().pid();

  private final CheckedTransport checked;

  LifeCycleChecks(CheckedTransport checked) {
    this.checked = checked;
  }

  List<Check> all() {
    return List.of(
        new Check("closing twice does nothing, and afterwards nothing can be used", this::closed),
        new Check("closing does not wait for the peer", this::closesSoon),
        new Check("a rank that closes leaves the other its memory", this::oneCloses),
        new Check("connected and closed, nothing is left", () -> leavesNothing(true)),
        new Check("closing before it is connected leaves nothing", () -> leavesNothing(false)));
  }

  private void closed() {
    Mesh mesh = new Mesh(checked, 2);
    Link link = Link.connected(mesh, 0, 1);
    DeviceMemory data = link.receiver().connection().data();
    mesh.close();
    mesh.close();
    Expect.that(!data.isOpen(), "the regions are still open");
    Expect.failure("sender() after close", () -> mesh.transport(0).sender(mesh.peer(1)));
    Expect.failure("connection() after close", link.sender()::connection);
  }

  /** The least counts, as of calls of connect. */
  private void closesSoon() {
    long least = Long.MAX_VALUE;
    for (int round = 0; round < TIMED_CLOSES; round++) {
      try (Mesh mesh = new Mesh(checked, 2)) {
        Link.connected(mesh, 0, 1);
        long start = System.nanoTime();
        mesh.transport(0).close();
        least = Math.min(least, System.nanoTime() - start);
      }
    }
    Expect.that(
        least < MOST_NANOS,
        "close takes %d ms, at most %d are allowed: it must not wait",
        least / 1_000_000,
        MOST_NANOS / 1_000_000);
  }

  private void oneCloses() {
    try (Mesh mesh = new Mesh(checked, 2)) {
      Link link = Link.connected(mesh, 0, 1);
      Link back = Link.connected(mesh, 1, 0);
      mesh.transport(1).close();
      DeviceMemory theirs = link.sender().connection().data();
      theirs.write(0, ByteBuffer.allocate(8).putLong(0, 1));
      theirs.read(theirs.size() - 8, ByteBuffer.allocate(8));
      back.receiver().connection().credit().write(0, ByteBuffer.allocate(8));
    }
  }

  private void leavesNothing(boolean connect) {
    for (int warmUp = 0; warmUp < 3; warmUp++) {
      round(connect);
    }
    List<Path> files = checked.filesOf(SELF);
    ProcessFootprint before = ProcessFootprint.settled();
    for (int round = 0; round < ROUNDS; round++) {
      round(connect);
    }
    Deadline.awaitEnd(
        () ->
            isAbout(before, ProcessFootprint.now()) || isAbout(before, ProcessFootprint.settled()),
        () ->
            "open files, mappings and address space as before: from %s to %s in %d rounds"
                .formatted(before, ProcessFootprint.now(), ROUNDS));
    Expect.equal(files, checked.filesOf(SELF), "files");
  }

  /** Less than one of each for every second round: the JVM itself opens and maps a few. */
  private static boolean isAbout(ProcessFootprint before, ProcessFootprint now) {
    return now.openFiles() - before.openFiles() < ROUNDS / 2
        && now.mappings() - before.mappings() < ROUNDS / 2
        && now.addressBytes() - before.addressBytes()
            < ROUNDS / 2 * ContractContext.LAYOUT.dataBytes();
  }

  private void round(boolean connect) {
    try (Mesh mesh = new Mesh(checked, 2)) {
      Link link = Link.between(mesh, 0, 1);
      if (connect) {
        Link.connect(List.of(link));
      } else {
        link.sender().connect(link.receiver().handle());
      }
    }
  }
}
