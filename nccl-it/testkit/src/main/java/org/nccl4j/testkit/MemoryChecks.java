package org.nccl4j.testkit;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;

/** The two regions of a connection. */
final class MemoryChecks {
  private static final int BLOCK = 1 << 16;

  private final CheckedTransport checked;

  MemoryChecks(CheckedTransport checked) {
    this.checked = checked;
  }

  List<Check> all() {
    return List.of(
        new Check("regions are large enough, aligned to 256 bytes and zero", this::fresh),
        new Check("40 steps go from the sender to the receiver", this::steps),
        new Check("each end sees what the other stores, in every byte", this::shared),
        new Check("no two connections share a byte", this::distinct),
        new Check("a communicator after another begins with zeros", this::freshAgain));
  }

  private void fresh() {
    try (Mesh mesh = new Mesh(checked, 2)) {
      Link link = Link.connected(mesh, 0, 1);
      for (Connector end : List.of(link.sender(), link.receiver())) {
        Connection connection = end.connection();
        checkFresh(connection.data(), ContractContext.LAYOUT.dataBytes(), "data side");
        checkFresh(connection.credit(), ConnectionLayout.CREDIT_BYTES, "credit side");
      }
    }
  }

  private static void checkFresh(DeviceMemory region, long bytes, String what) {
    Expect.that(region.size() >= bytes, "%s of %d bytes, not %d", what, region.size(), bytes);
    Expect.equal(0L, region.address() % 256, what + "'s address modulo 256");
    expectAll(region, bytes, (byte) 0, "a new " + what);
  }

  private void steps() {
    try (Mesh mesh = new Mesh(checked, 2)) {
      Link link = Link.connected(mesh, 0, 1);
      Steps sender = new Steps(ContractContext.LAYOUT, link.sender().connection());
      Steps receiver = new Steps(ContractContext.LAYOUT, link.receiver().connection());
      long[] done = new long[2];
      Deadline.awaitData(
          () -> {
            done[0] += done[0] < 40 && sender.send(done[0]) ? 1 : 0;
            link.pump();
            done[1] += done[1] < 40 && receiver.receive(done[1]) ? 1 : 0;
            return done[1] == 40;
          },
          () -> "%d steps were sent, %d received".formatted(done[0], done[1]));
      Expect.equal(40L, done[0], "steps sent");
    }
  }

  private void shared() {
    try (Mesh mesh = new Mesh(checked, 2)) {
      Link link = Link.connected(mesh, 0, 1);
      if (!link.isShared()) {
        return;
      }
      Connection here = link.sender().connection();
      Connection there = link.receiver().connection();
      long bytes = ContractContext.LAYOUT.dataBytes();
      here.data().slice(0, bytes).fill((byte) 0x5a);
      expectAll(there.data(), bytes, (byte) 0x5a, "the receiver's view of the data side");
      there.credit().slice(0, ConnectionLayout.CREDIT_BYTES).fill((byte) 0x3c);
      expectAll(
          here.credit(),
          ConnectionLayout.CREDIT_BYTES,
          (byte) 0x3c,
          "the sender's view of the credit side");
    }
  }

  private void distinct() {
    try (Mesh mesh = new Mesh(checked, 3)) {
      List<Link> links = new ArrayList<>();
      for (int i = 0; i < 9; i++) {
        links.add(Link.between(mesh, i % 3, (i + 1 + i / 3 % 2) % 3));
      }
      Link.connect(links);
      for (int i = 0; i < links.size(); i++) {
        links.get(i).receiver().connection().data().fill((byte) (2 * i + 1));
        links.get(i).sender().connection().credit().fill((byte) (2 * i + 2));
      }
      for (int i = 0; i < links.size(); i++) {
        DeviceMemory data = links.get(i).receiver().connection().data();
        DeviceMemory credit = links.get(i).sender().connection().credit();
        expectAll(data, data.size(), (byte) (2 * i + 1), "data side " + i);
        expectAll(credit, credit.size(), (byte) (2 * i + 2), "credit side " + i);
      }
    }
  }

  private void freshAgain() {
    try (Mesh mesh = new Mesh(checked, 2)) {
      Link link = Link.connected(mesh, 0, 1);
      link.receiver().connection().data().fill((byte) 0x77);
      link.sender().connection().credit().fill((byte) 0x77);
    }
    fresh();
  }

  private static void expectAll(DeviceMemory region, long bytes, byte expected, String what) {
    byte[] block = new byte[BLOCK];
    for (long at = 0; at < bytes; at += BLOCK) {
      int length = (int) Math.min(BLOCK, bytes - at);
      region.read(at, ByteBuffer.wrap(block, 0, length));
      for (int i = 0; i < length; i++) {
        if (block[i] != expected) {
          throw new AssertionError(
              "%s: byte %d is %d, not %d".formatted(what, at + i, block[i], expected));
        }
      }
    }
  }
}
