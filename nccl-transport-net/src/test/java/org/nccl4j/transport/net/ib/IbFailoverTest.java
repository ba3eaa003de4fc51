package org.nccl4j.transport.net.ib;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.spi.Failovers;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.shm.OwnedFd;
import org.nccl4j.device.shm.SharedSegment;
import org.nccl4j.transport.net.ib.verbs.VerbsLayout;

/** Queue pairs, ports and devices that die, and others that take over. */
@Timeout(600)
class IbFailoverTest extends WithFakeVerbs {
  private static final int FIRST = 0;
  private static final int SECOND = 1;

  /** Two ports of one device, or one port of each of two devices. */
  private void twoPorts(boolean oneDevice) {
    FakeVerbs.addRoce(fake, "roce0", 5);
    if (oneDevice) {
      fake.fake_set_ports(FIRST, 2);
    } else {
      FakeVerbs.addRoce(fake, "roce1", 5);
    }
  }

  private void port(int device, int port, boolean down) {
    fake.fake_set_down(device, port, down ? 1 : 0);
    int event = down ? VerbsLayout.EVENT_PORT_ERR : VerbsLayout.EVENT_PORT_ACTIVE;
    fake.fake_event(device, event, port);
  }

  /** Both ends are polled, as operations do. */
  private static void awaitMoves(IbLink link, int count) {
    IbLink.await(
        () -> {
          ((IbConnection) link.sender).poll();
          ((IbConnection) link.receiver).poll();
          return link.sender.failovers().count() >= count;
        });
  }

  /** Moves messages of many sizes, a few under way, and counts how often others took over. */
  private static long moves(IbLink link) {
    long before = link.sender.failovers().count();
    for (int bytes : new int[] {0, 1, 500, 70_000}) {
      assertTrue(link.moves(bytes), bytes + " bytes");
    }
    return link.sender.failovers().count() - before;
  }

  @ParameterizedTest
  @CsvSource({"1, 0", "3, 0", "3, 1"})
  void aQueuePairThatBreaksIsMadeAnewAtTheSamePort(String pairs, String split) {
    FakeVerbs.addRoce(fake, "roce0", 5);
    try (IbLink link =
        new IbLink("NCCL_IB_QPS_PER_CONNECTION", pairs, "NCCL_IB_SPLIT_DATA_ON_QPS", split)) {
      for (int after = 0; after < 3; after++) {
        for (int arrives = 0; arrives < 3; arrives++) {
          fake.fake_break(after, arrives);
          moves(link);
          IbLink.await(() -> fake.fake_broke() == 1);
          assertTrue(link.moves(70_000));
        }
      }
      fake.fake_break(1, 1);
      assertTrue(link.moves(70_000), "with half of the data twice");
      Failovers seen = link.sender.failovers();
      assertTrue(seen.count() >= 9, seen.toString());
      assertTrue(seen.bytesAgain() >= 70_000, seen.toString());
      assertEquals("roce0:1 to roce0:1", seen.path());
    }
  }

  /** The receiver may have announced over them before it was given up. */
  @Test
  void whatCameOverQueuePairsThatAreGivenUpAgainIsForgotten() {
    FakeVerbs.addRoce(fake, "roce0", 5);
    try (IbLink link = new IbLink()) {
      IbConnection sender = (IbConnection) link.sender;
      sender.takeTurn();
      NicQueues others = sender.open(LocalPorts.HOME);
      sender.adopt(others);
      sender.table.put(0, 0, 1, 1, 4096, 64, 7);
      sender.release(others);
      assertFalse(sender.table.arrivedAcquire(0, 0, 1));
      sender.use(others);
      sender.turn.leave();
    }
  }

  /** The receiver has everything, asks for nothing more, and nobody polls it. */
  @Test
  void aSenderWhoseAcknowledgementIsLostIsAnsweredByAReceiverThatRests() {
    FakeVerbs.addRoce(fake, "roce0", 5);
    try (IbLink link = new IbLink();
        DeviceMemory memory = IbLink.memory(64)) {
      NetMemory out = link.sender.register(memory);
      NetRequest receive = link.receive(link.receiver.register(memory), 0, 64, 1);
      fake.fake_break(0, 2);
      NetRequest send = link.send(out, 0, 64, 1);
      receive.test(null);
      IbLink.await(() -> send.test(null));
      assertEquals(1, link.sender.failovers().count());
      assertEquals(0, link.sender.failovers().bytesAgain(), "the receiver has it");
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aPortThatGoesDownIsLeftAndUsedAgain(boolean oneDevice) {
    twoPorts(oneDevice);
    String other = oneDevice ? "roce0:2" : "roce1:1";
    try (IbLink link =
        new IbLink(
            "NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY", "1", "NCCL_IB_MERGE_NICS", "0")) {
      assertEquals(0, moves(link));
      port(FIRST, 1, true);
      awaitMoves(link, 1);
      assertEquals(other + " to " + other, link.sender.failovers().path());
      assertEquals(0, moves(link));
      port(FIRST, 1, false);
      awaitMoves(link, 2);
      assertEquals("roce0:1 to roce0:1", link.sender.failovers().path());
      assertEquals(0, moves(link));
    }
  }

  @Test
  void aConnectionStaysAtTheOtherPortWhereReturnsAreForbidden() {
    twoPorts(false);
    try (IbLink link =
        new IbLink(
            "NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY",
            "1",
            "NCCL_IB_RESILIENCY_PORT_RECOVERY",
            "0")) {
      port(FIRST, 1, true);
      awaitMoves(link, 1);
      port(FIRST, 1, false);
      for (int i = 0; i < 20; i++) {
        assertEquals(0, moves(link));
      }
    }
  }

  /** Only the receiver's network may use its second port, so only it can leave the first. */
  @Test
  void aReceiverAsksForAnotherPort() {
    twoPorts(false);
    port(SECOND, 1, false);
    try (IbLink link =
        new IbLink(new String[] {"NCCL_IB_HCA", "=roce1"}, new String[] {"NCCL_IB_HCA", ""})) {
      assertEquals(0, moves(link));
      port(FIRST, 1, true);
      awaitMoves(link, 1);
      assertEquals("roce1:1 to roce1:1", link.sender.failovers().path());
      assertEquals(0, moves(link));
    }
  }

  @Test
  void aDeviceThatDiesIsLeftForAnother() {
    twoPorts(false);
    try (IbLink link = new IbLink();
        IbLink bystander = new IbLink("NCCL_IB_HCA", "=roce1")) {
      assertEquals(0, moves(link));
      fake.fake_event(FIRST, VerbsLayout.EVENT_DEVICE_FATAL, 0);
      awaitMoves(link, 1);
      assertEquals(0, moves(link));
      assertEquals("roce1:1 to roce1:1", link.sender.failovers().path());
      assertEquals(0, moves(bystander));
      assertEquals(0, bystander.sender.failovers().count());
    }
  }

  /**
   * Each end has a device of its own, which nobody else keeps open; all its memory moves at once.
   */
  @Test
  void devicesThatDieAreLeftWithAllMemory() {
    for (String name : List.of("roce0", "roce1", "roce2", "roce3")) {
      FakeVerbs.addRoce(fake, name, 5);
    }
    String[] from = {"NCCL_IB_HCA", "=roce0,roce1", "NCCL_IB_MERGE_NICS", "0"};
    String[] to = {"NCCL_IB_HCA", "=roce2,roce3", "NCCL_IB_MERGE_NICS", "0"};
    try (IbLink link = new IbLink(from, to);
        DeviceMemory memory = IbLink.memory(1 << 20)) {
      for (int i = 0; i < 9; i++) {
        link.sender.register(memory, new Object());
        link.receiver.register(memory, new Object());
      }
      assertEquals(0, moves(link));
      fake.fake_event(FIRST, VerbsLayout.EVENT_DEVICE_FATAL, 0);
      fake.fake_event(FIRST + 2, VerbsLayout.EVENT_DEVICE_FATAL, 0);
      awaitMoves(link, 1);
      assertEquals("roce1:1 to roce3:1", link.sender.failovers().path());
      assertEquals(0, moves(link));
      assertEquals(List.of(), FakeVerbs.calls(fake, "ibv_dereg_mr again"));
    }
  }

  /** Its memory is forgotten by it, so the connections close, and the next open it anew. */
  @ParameterizedTest
  @ValueSource(strings = {"0", "10s"})
  void aDeviceThatHasRecoveredIsUsedAgain(String failover) {
    FakeVerbs.addRoce(fake, "roce0", 5);
    try (DeviceMemory memory = IbLink.memory(64)) {
      try (IbLink link = new IbLink("NCCL4J_NET_FAILOVER_TIMEOUT", failover)) {
        link.sender.register(memory);
        link.receiver.register(memory);
        assertTrue(link.moves(1000));
        fake.fake_event(FIRST, VerbsLayout.EVENT_DEVICE_FATAL, 0);
        assertThrows(NcclException.class, () -> awaitMoves(link, 1));
      }
      assertEquals(0, fake.fake_live());
      assertEquals(List.of(), FakeVerbs.calls(fake, "ibv_dereg_mr again"));
      try (IbLink link = new IbLink()) {
        assertTrue(link.moves(1000));
      }
    }
  }

  @ParameterizedTest
  @CsvSource({"0, CQ error", "1, work queue catastrophic"})
  void aQueueThatDiesIsReplaced(int type, String name) {
    FakeVerbs.addRoce(fake, "roce0", 5);
    try (IbLink link = new IbLink()) {
      boolean queue = type == VerbsLayout.EVENT_CQ_ERR;
      fake.fake_event(FIRST, type, queue ? fake.fake_last_cq() : fake.fake_last_qp());
      awaitMoves(link, 1);
      assertEquals(0, moves(link), name);
    }
  }

  /** Another connection's queue pair may have its handle at once. */
  @Test
  void theErrorOfAQueuePairEndsWithIt() {
    FakeVerbs.addRoce(fake, "roce0", 5);
    try (IbLink link = new IbLink()) {
      IbConnection sender = (IbConnection) link.sender;
      sender.takeTurn();
      PortQueues port = sender.queues.ports[0];
      long[] pair = {port.pairs[0].handle()};
      fake.fake_event(FIRST, VerbsLayout.EVENT_QP_FATAL, pair[0]);
      assertThrows(NcclException.class, () -> port.device.events().check(pair, 1, 0));
      sender.stop();
      assertDoesNotThrow(() -> port.device.events().check(pair, 1, 0));
      NicQueues others = sender.open(LocalPorts.HOME);
      sender.adopt(others);
      sender.use(others);
      sender.turn.leave();
    }
  }

  @Test
  void whatIsUnderWayWhenAPortDiesArrivesOnce() {
    twoPorts(false);
    try (IbLink link = new IbLink();
        DeviceMemory source = IbLink.pattern(8 * 1000, 3);
        DeviceMemory target = IbLink.memory(8 * 1000)) {
      NetMemory out = link.sender.register(source);
      NetMemory in = link.receiver.register(target);
      List<NetRequest> receives = new ArrayList<>();
      List<NetRequest> sends = new ArrayList<>();
      for (int i = 0; i < 8; i++) {
        receives.add(link.receive(in, i * 1000L, 1000, 1));
      }
      for (int i = 0; i < 4; i++) {
        sends.add(link.send(out, i * 1000L, 1000, 1));
      }
      port(FIRST, 1, true);
      for (int i = 4; i < 8; i++) {
        sends.add(link.send(out, i * 1000L, 1000, 1));
      }
      int[] size = new int[1];
      for (NetRequest receive : receives) {
        IbLink.await(() -> receive.test(size));
        assertEquals(1000, size[0]);
      }
      sends.forEach(send -> IbLink.await(() -> send.test(null)));
      assertArrayEquals(IbLink.read(source, 0, 8000), IbLink.read(target, 0, 8000));
      assertEquals(1, link.sender.failovers().count());
    }
  }

  @Test
  void flushesOfAGpuAreMadeAgain() {
    twoPorts(false);
    try (IbLink link = new IbLink("NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY", "1");
        GpuMemory gpu = new GpuMemory(IbLink.memory(8192));
        DeviceMemory source = IbLink.pattern(1000, 2)) {
      NetMemory in = link.receiver.register(gpu);
      NetMemory out = link.sender.register(source);
      for (int round = 0; round < 12; round++) {
        NetRequest receive = link.receive(in, 100, 1000, 1);
        NetRequest send = link.send(out, 0, 1000, 1);
        IbLink.await(() -> receive.test(null));
        IbLink.await(() -> send.test(null));
        if (round % 3 == 0) {
          port(FIRST, 1, round % 2 == 0);
        } else {
          fake.fake_break(0, 0);
        }
        NetRequest flush =
            link.receiver.iflush(1, new NetMemory[] {in}, new long[] {100}, new int[] {1000});
        IbLink.await(() -> flush.test(null));
      }
      assertTrue(link.sender.failovers().count() >= 6);
      assertArrayEquals(IbLink.patternBytes(1000, 2), IbLink.read(gpu, 100, 1000));
    }
  }

  @Test
  void aDmaBufIsRegisteredWithTheOtherDeviceToo() {
    twoPorts(false);
    int fd = 1; // any that is open
    try (IbLink link = new IbLink();
        GpuMemory gpu = new GpuMemory(IbLink.memory(8192));
        DeviceMemory source = IbLink.pattern(1000, 2)) {
      NetMemory in = link.receiver.registerDmaBuf(gpu, fd, 4096);
      NetMemory out = link.sender.register(source);
      port(FIRST, 1, true);
      NetRequest receive = link.receive(in, 100, 1000, 1);
      NetRequest send = link.send(out, 0, 1000, 1);
      IbLink.await(() -> receive.test(null));
      IbLink.await(() -> send.test(null));
      assertEquals("roce1:1 to roce1:1", link.sender.failovers().path());
      assertArrayEquals(IbLink.patternBytes(1000, 2), IbLink.read(gpu, 100, 1000));
      assertEquals(2, FakeVerbs.calls(fake, "dmabuf offset=4096").size(), "by a descriptor each");
    }
  }

  /** Descriptors are few, and registrations and connections may be many. */
  @Test
  void connectionsThatMayMoveKeepOneDescriptorOfADmaBuf() throws IOException {
    twoPorts(false);
    try (IbLink one = new IbLink();
        IbLink two = new IbLink();
        DeviceMemory memory = IbLink.memory(8192);
        SharedSegment buffer = SharedSegment.create(16384);
        OwnedFd fd = new OwnedFd(buffer.duplicateFd());
        OwnedFd same = new OwnedFd(buffer.duplicateFd())) {
      Object inode = Files.getAttribute(Path.of("/proc/self/fd/" + fd.value()), "unix:ino");
      long before = descriptors(inode);
      List<NetMemory> known =
          List.of(
              one.sender.registerDmaBuf(memory, fd.value(), 4096),
              one.receiver.registerDmaBuf(memory, same.value(), 4096),
              two.sender.registerDmaBuf(memory, fd.value(), 4096),
              two.sender.registerDmaBuf(memory, fd.value(), 0));
      assertEquals(before + 1, descriptors(inode));
      known.get(0).close();
      known.get(0).close();
      known.get(3).closeSoon();
      assertEquals(before + 1, descriptors(inode), "two use it");
      known.get(1).close();
      known.get(2).close();
      assertEquals(before, descriptors(inode));
    }
  }

  /** Of a file, among all of this process. */
  private static long descriptors(Object inode) throws IOException {
    long count = 0;
    try (Stream<Path> all = Files.list(Path.of("/proc/self/fd"))) {
      for (Path each : all.toList()) {
        try {
          count += Files.getAttribute(each, "unix:ino").equals(inode) ? 1 : 0;
        } catch (NoSuchFileException e) {
          // The listing's own, or one that another thread has closed.
        }
      }
    }
    return count;
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void withoutAnyPortTheErrorNamesTheFirstCauseInTime(boolean event) {
    twoPorts(false);
    try (IbLink link = new IbLink("NCCL4J_NET_FAILOVER_TIMEOUT", "300ms");
        DeviceMemory memory = IbLink.memory(64)) {
      NetMemory out = link.sender.register(memory);
      NetMemory in = link.receiver.register(memory);
      NetRequest receive = link.receive(in, 0, 64, 1);
      fake.fake_set_down(FIRST, 1, 1);
      fake.fake_set_down(SECOND, 1, 1);
      if (event) {
        fake.fake_event(FIRST, VerbsLayout.EVENT_PORT_ERR, 1);
      }
      NcclException error =
          assertThrows( // by the send itself if this thread has paused since the event
              NcclException.class,
              () -> {
                NetRequest send = link.send(out, 0, 64, 1);
                IbLink.await(() -> send.test(null));
              });
      String text = error.getMessage();
      assertTrue(text.contains("retry counter exceeded"), text);
      assertTrue(text.contains("no queue pair has taken over within 300 ms"), text);
      assertTrue(text.contains("NCCL_IB_TIMEOUT"), text);
      String other =
          assertThrows(NcclException.class, () -> IbLink.await(() -> receive.test(null)))
              .getMessage();
      assertTrue(other.toLowerCase(Locale.ROOT).contains("rank 0"), other);
    }
  }

  /** An end may find the connection broken long before the other, and so give it up first. */
  @ParameterizedTest
  @CsvSource({"50s, 300ms", "300ms, 50s"})
  void theEndThatGivesUpFirstTellsTheOtherWhy(String senders, String receivers) {
    FakeVerbs.addRoce(fake, "roce0", 5);
    String name = "NCCL4J_NET_FAILOVER_TIMEOUT";
    try (IbLink link = new IbLink(new String[] {name, senders}, new String[] {name, receivers});
        DeviceMemory memory = IbLink.memory(64)) {
      fake.fake_set_down(FIRST, 1, 1);
      NetMemory out = link.sender.register(memory);
      NetRequest receive = link.receive(link.receiver.register(memory), 0, 64, 1);
      boolean receiverIsFirst = receivers.equals("300ms");
      BooleanSupplier wait =
          receiverIsFirst
              ? () -> link.sender.isend(out, 0, 64, 1) != null
              : () -> receive.test(null);
      String text = assertThrows(NcclException.class, () -> IbLink.await(wait)).getMessage();
      String first = receiverIsFirst ? "rank 1" : "rank 0";
      assertTrue(text.contains(first), text);
      assertTrue(
          text.contains(
              "has given up its InfiniBand connection to roce0:1:"
                  + " no queue pair has taken over within 300 ms"),
          text);
    }
  }

  @Test
  void aPathThatTakesOnlySmallPacketsFailsInTimeToo() {
    FakeVerbs.addRoce(fake, "roce0", 5);
    try (IbLink link = new IbLink("NCCL4J_NET_FAILOVER_TIMEOUT", "300ms");
        DeviceMemory memory = IbLink.memory(1 << 16)) {
      NetMemory out = link.sender.register(memory);
      assertTrue(link.moves(64));
      link.receive(link.receiver.register(memory), 0, 1 << 16, 1);
      fake.fake_lose_from(1500);
      NetRequest lost = link.send(out, 0, 1 << 16, 1);
      String text =
          assertThrows(NcclException.class, () -> IbLink.await(() -> lost.test(null))).getMessage();
      assertTrue(text.contains("suspect the MTU"), text);
    }
  }

  @ParameterizedTest
  @CsvSource({"NCCL_IB_RESILIENCY_PORT_FAILOVER, 0", "NCCL4J_NET_FAILOVER_TIMEOUT, 0"})
  void forbidden(String name, String value) {
    twoPorts(false);
    try (IbLink link = new IbLink(new String[] {name, value}, new String[0]);
        DeviceMemory memory = IbLink.memory(64)) {
      assertTrue(link.moves(1000));
      fake.fake_break(0, 0);
      NetMemory in = link.receiver.register(memory);
      NetMemory out = link.sender.register(memory);
      link.receive(in, 0, 64, 1);
      assertThrows(
          NcclException.class,
          () ->
              IbLink.await(
                  () -> {
                    link.sender.isend(out, 0, 64, 1);
                    ((IbConnection) link.receiver).poll();
                    return false;
                  }));
    }
  }

  /** Every call that a move makes fails for a while, and the move succeeds after that. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "ibv_create_cq",
        "ibv_create_qp",
        "ibv_reg_mr",
        "ibv_open_device",
        "ibv_alloc_pd",
        "ibv_query_port",
        "ibv_modify_qp:1",
        "ibv_modify_qp:2",
        "ibv_modify_qp:3",
        "post_send",
        "post_recv",
        "poll_cq"
      })
  void aMoveIsTriedAgainAfterACallThatFails(String call) {
    twoPorts(false);
    for (int after = 0; after < 4; after++) {
      try (IbLink link = new IbLink()) {
        assertTrue(link.moves(1000));
        fake.fake_fail(call, 12, after);
        port(FIRST, 1, true);
        long heal = System.nanoTime() + 20_000_000;
        IbLink.await(() -> System.nanoTime() > heal);
        fake.fake_fail("", 0, 0);
        awaitMoves(link, 1);
        assertEquals(0, moves(link), call);
        port(FIRST, 1, false);
      }
    }
  }
}
