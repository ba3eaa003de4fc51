package org.nccl4j.transport.net.ib;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.transport.net.ib.control.IbHandle;
import org.nccl4j.transport.net.ib.verbs.VerbsLayout;

/** Each failure names its cause and remedy, and leaves nothing behind. */
class IbFaultTest extends WithRoce {
  private static final String[] WITHOUT = {"NCCL4J_NET_FAILOVER_TIMEOUT", "0"};
  private static final int ENOMEM = 12;
  private static final int ENETUNREACH = 101;
  private static final int ENOTSUP = 95;

  private static void assertSays(NcclException error, String... texts) {
    for (String text : texts) {
      assertTrue(error.getMessage().contains(text), text + " in: " + error.getMessage());
    }
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "ibv_alloc_pd    | 12  | 0 | ibv_alloc_pd",
        "ibv_create_cq   | 12  | 0 | ibv_create_cq",
        "ibv_create_cq   | 12  | 1 | ibv_create_cq",
        "ibv_create_qp   | 12  | 0 | ulimit -l",
        "ibv_create_qp   | 12  | 3 | ulimit -l",
        "ibv_reg_mr      | 12  | 0 | ulimit -l",
        "ibv_reg_mr      | 12  | 1 | ulimit -l",
        "ibv_open_device | 13  | 0 | /dev/infiniband",
        "ibv_modify_qp:1 | 22  | 0 | NCCL_IB_PKEY",
        "ibv_modify_qp:2 | 101 | 0 | NCCL_IB_GID_INDEX",
        "ibv_modify_qp:2 | 101 | 2 | ping each other",
        "ibv_modify_qp:3 | 22  | 0 | ready to send",
      })
  void aCallThatFailsWhileConnecting(String call, int errno, int after, String says) {
    new IbProvider().open(FakeVerbs.context(0)).devices();
    fake.fake_fail(call, errno, after + (call.equals("ibv_alloc_pd") ? 2 : 0));
    NcclException error =
        assertThrows(
            NcclException.class, () -> new IbLink("NCCL_IB_QPS_PER_CONNECTION", "2").close());
    assertSays(error, says.equals("/dev/infiniband") ? "no port can be used" : says);
  }

  @Test
  void memoryThatCannotBeLocked() {
    try (IbLink link = new IbLink();
        DeviceMemory memory = IbLink.memory(1 << 20)) {
      fake.fake_fail("ibv_reg_mr", ENOMEM, 0);
      SystemErrorException error =
          assertThrows(SystemErrorException.class, () -> link.sender.register(memory));
      assertSays(error, "1048576 bytes", "roce0", "ulimit -l");
    }
  }

  @Test
  void dmaBufsThatTheDeviceDoesNotTake() {
    fake.fake_fail("ibv_reg_dmabuf_mr", ENOTSUP, 0);
    try (IbLink link = new IbLink();
        DeviceMemory memory = IbLink.memory(4096)) {
      assertEquals("[HOST]", link.from.devices().get(0).pointers().toString());
      assertSays(
          assertThrows(SystemErrorException.class, () -> link.sender.registerDmaBuf(memory, 9, 0)),
          "dma-buf 9",
          "nvidia_peermem");
      assertThrows(InvalidArgumentException.class, () -> link.sender.registerDmaBuf(memory, -1, 0));
    }
  }

  @Test
  void aPathThatTakesOnlySmallPackets() {
    try (IbLink link = new IbLink(WITHOUT);
        DeviceMemory memory = IbLink.memory(1 << 16)) {
      NetMemory from = link.sender.register(memory);
      NetMemory to = link.receiver.register(memory);
      NetRequest small = link.receive(to, 0, 64, 1);
      NetRequest sent = link.send(from, 0, 64, 1);
      IbLink.await(() -> sent.test(null));
      IbLink.await(() -> small.test(null));
      fake.fake_lose_from(1500);
      link.receive(to, 0, 1 << 16, 1);
      NetRequest lost = link.send(from, 0, 1 << 16, 1);
      RemoteException error =
          assertThrows(RemoteException.class, () -> IbLink.await(() -> lost.test(null)));
      assertSays(error, "rank 1", "retry counter exceeded", "MTU", "4096 bytes", "ip link set mtu");
      assertThrows(
          RemoteException.class, () -> link.sender.isend(from, 0, 1, 1), "it stays broken");
    }
  }

  @Test
  void aTransferThatFailsNamesTheLinkThatWentDownBefore() {
    try (IbLink link = new IbLink(WITHOUT);
        DeviceMemory memory = IbLink.memory(4096)) {
      NetMemory from = link.sender.register(memory);
      NetMemory to = link.receiver.register(memory);
      fake.fake_event(0, VerbsLayout.EVENT_PORT_ERR, 1);
      NetRequest waiting = link.receive(to, 0, 64, 1);
      for (int i = 0; i < 200_000; i++) {
        waiting.test(null);
      }
      fake.fake_complete_with(VerbsLayout.WC_RETRY_EXC_ERR, 0);
      NetRequest lost = link.send(from, 0, 64, 1);
      assertSays(
          assertThrows(RemoteException.class, () -> IbLink.await(() -> lost.test(null))),
          "port 1",
          "port error");
      fake.fake_complete_with(0, 0);
      fake.fake_event(0, VerbsLayout.EVENT_PORT_ACTIVE, 1);
    }
  }

  @Test
  void aPortThatStaysDownForLongerThanPacketsAreRetried() {
    try (IbLink link =
            new IbLink("NCCL_IB_TIMEOUT", "1", "NCCL_IB_RETRY_CNT", "0", WITHOUT[0], WITHOUT[1]);
        IbLink patient = new IbLink(WITHOUT);
        DeviceMemory memory = IbLink.memory(4096)) {
      NetRequest waiting = link.receive(link.receiver.register(memory), 0, 64, 1);
      NetRequest other = patient.receive(patient.receiver.register(memory), 0, 64, 1);
      fake.fake_event(0, VerbsLayout.EVENT_PORT_ERR, 1);
      assertSays(
          assertThrows(SystemErrorException.class, () -> IbLink.await(() -> waiting.test(null))),
          "port roce0:1 has been down",
          "NCCL_IB_TIMEOUT");
      NetRequest send = patient.send(patient.sender.register(memory), 0, 64, 1);
      IbLink.await(() -> other.test(null));
      IbLink.await(() -> send.test(null));
    }
  }

  @Test
  void aDeviceThatDies() {
    try (IbLink link = new IbLink();
        DeviceMemory memory = IbLink.memory(4096)) {
      NetMemory to = link.receiver.register(memory);
      NetRequest waiting = link.receive(to, 0, 64, 1);
      fake.fake_event(0, VerbsLayout.EVENT_DEVICE_FATAL, 0);
      assertSays(
          assertThrows(SystemErrorException.class, () -> IbLink.await(() -> waiting.test(null))),
          "roce0",
          "device fatal",
          "NCCL_IB_HCA=^roce0");
    }
  }

  @ParameterizedTest
  @CsvSource({"0, CQ error", "1, work queue catastrophic", "2, invalid request", "3, access"})
  void aQueueThatDiesConcernsItsConnectionAlone(int type, String name) {
    try (IbLink healthy = new IbLink(WITHOUT);
        IbLink link = new IbLink(WITHOUT);
        DeviceMemory memory = IbLink.memory(4096)) {
      NetMemory to = link.receiver.register(memory);
      NetRequest waiting = link.receive(to, 0, 64, 1);
      boolean queue = type == VerbsLayout.EVENT_CQ_ERR;
      fake.fake_event(0, type, queue ? fake.fake_last_cq() : fake.fake_last_qp());
      assertSays(
          assertThrows(SystemErrorException.class, () -> IbLink.await(() -> waiting.test(null))),
          "device roce0 reports",
          name,
          "dmesg");
      assertTrue(healthy.moves(64));
    }
  }

  @Test
  void theQueueOfFlushesIsItsConnections() {
    try (IbLink link = new IbLink(WITHOUT);
        DeviceMemory memory = IbLink.memory(4096)) {
      NetMemory to = link.receiver.register(memory);
      NetRequest flush = ((IbReceiver) link.receiver).flush((IbMemory) to, 0);
      IbLink.await(() -> flush.test(null));
      NetRequest waiting = link.receive(to, 0, 64, 1);
      fake.fake_event(0, VerbsLayout.EVENT_QP_FATAL, fake.fake_last_qp());
      assertSays(
          assertThrows(SystemErrorException.class, () -> IbLink.await(() -> waiting.test(null))),
          "device roce0 reports");
    }
  }

  @ParameterizedTest
  @CsvSource({"11, LID change", "18, GID table change"})
  void anAddressThatChangesIsNamedOnceATransferFails(int type, String name) {
    try (IbLink link = new IbLink(WITHOUT);
        DeviceMemory memory = IbLink.memory(4096)) {
      NetMemory from = link.sender.register(memory);
      NetRequest waiting = link.receive(link.receiver.register(memory), 0, 64, 1);
      fake.fake_event(0, type, 1);
      IbLink.await(
          () -> {
            waiting.test(null);
            return ((IbConnection) link.sender)
                .queues
                .ports[0]
                .device
                .events()
                .trouble()
                .contains(name);
          });
      fake.fake_complete_with(VerbsLayout.WC_RETRY_EXC_ERR, 0);
      NetRequest lost = link.send(from, 0, 64, 1);
      assertSays(
          assertThrows(RemoteException.class, () -> IbLink.await(() -> lost.test(null))),
          "device roce0 reported for port 1: " + name);
    }
  }

  @ParameterizedTest
  @CsvSource({"post_send", "post_recv", "poll_cq"})
  void aFunctionOfTheContextThatFails(String call) {
    try (IbLink link = new IbLink(WITHOUT);
        DeviceMemory memory = IbLink.memory(4096)) {
      NetMemory to = link.receiver.register(memory);
      fake.fake_fail(call, ENOMEM, 0);
      assertSays(
          assertThrows(
              SystemErrorException.class,
              () -> {
                NetRequest request = link.receive(to, 0, 64, 1);
                IbLink.await(() -> request.test(null));
              }),
          "ibv_" + call);
    }
  }

  @Test
  void theOtherEndCloses() {
    try (IbLink link = new IbLink();
        DeviceMemory memory = IbLink.memory(4096)) {
      NetMemory from = link.sender.register(memory);
      NetMemory to = link.receiver.register(memory);
      NetRequest receive = link.receive(to, 0, 64, 1);
      NetRequest send = link.send(from, 0, 64, 1);
      IbLink.await(() -> send.test(null));
      link.sender.close();
      IbLink.await(() -> receive.test(null));
      NetRequest next = link.receive(to, 0, 64, 1);
      assertSays(
          assertThrows(RemoteException.class, () -> IbLink.await(() -> next.test(null))),
          "rank 0",
          "roce0:1");
    }
    try (IbLink link = new IbLink();
        DeviceMemory memory = IbLink.memory(4096)) {
      NetMemory from = link.sender.register(memory);
      link.receiver.close();
      assertSays(
          assertThrows(
              RemoteException.class,
              () -> IbLink.await(() -> link.sender.isend(from, 0, 1, 1) != null)),
          "rank 1",
          "closed");
    }
  }

  @Test
  void misuse() {
    try (IbLink link = new IbLink();
        IbLink other = new IbLink();
        DeviceMemory memory = IbLink.memory(4096)) {
      NetMemory from = link.sender.register(memory);
      NetMemory to = link.receiver.register(memory);
      assertThrows(InvalidArgumentException.class, () -> link.sender.isend(from, 4000, 97, 1));
      assertThrows(InvalidArgumentException.class, () -> link.sender.isend(from, -1, 1, 1));
      assertThrows(
          InvalidArgumentException.class, () -> link.receiver.irecv(9, null, null, null, null));
      link.receive(to, 0, 10, 1);
      assertSays(
          assertThrows(
              InvalidUsageException.class,
              () -> IbLink.await(() -> link.sender.isend(from, 0, 11, 1) != null)),
          "11 bytes",
          "10 bytes");
      from.close();
      assertThrows(InvalidArgumentException.class, () -> link.sender.isend(from, 0, 1, 1));
      other.sender.close();
      other.sender.close();
      assertThrows(InvalidUsageException.class, () -> other.sender.register(memory));
      assertThrows(InvalidArgumentException.class, () -> link.to.listen(1));
      assertThrows(InvalidUsageException.class, () -> link.from.connect(0, new byte[40]));
      assertThrows(InvalidUsageException.class, () -> link.from.connect(0, new byte[0]));
    }
  }

  @Test
  void strangersAreRefusedAndTheSenderStillGetsIn() throws IOException {
    try (Net to = new IbProvider().open(FakeVerbs.context(1));
        Net from = new IbProvider().open(FakeVerbs.context(0));
        Net thief = new IbProvider().open(FakeVerbs.context(0, new byte[] {1, 2, 3}));
        NetListener listener = to.listen(0)) {
      int port = IbHandle.decode(listener.handle()).port();
      Random random = new Random(5);
      Socket[] strangers = new Socket[100];
      for (int i = 0; i < strangers.length; i++) {
        strangers[i] = new Socket();
        strangers[i].connect(new InetSocketAddress("127.0.0.1", port));
        byte[] garbage = new byte[random.nextInt(2000)];
        random.nextBytes(garbage);
        strangers[i].getOutputStream().write(garbage);
        assertNull(listener.accept());
      }
      NetSender wrong = thief.connect(0, listener.handle());
      IbLink.await(
          () -> {
            assertNull(listener.accept());
            assertFalse(wrong.isConnected());
            return wrong.toString().contains("or has another secret: it closed the connection)");
          });
      assertTrue(listener.toString().contains("refused meanwhile"), listener.toString());
      NetSender right = from.connect(0, listener.handle());
      NetReceiver[] receiver = new NetReceiver[1];
      IbLink.await(
          () -> {
            boolean connected = right.isConnected();
            receiver[0] = receiver[0] == null ? listener.accept() : receiver[0];
            return connected && receiver[0] != null;
          });
      for (Socket stranger : strangers) {
        stranger.close();
      }
    }
  }

  @Test
  void nobodyListens() {
    try (Net from = new IbProvider().open(FakeVerbs.context(0))) {
      Net to = new IbProvider().open(FakeVerbs.context(1));
      byte[] handle;
      try (NetListener listener = to.listen(0)) {
        handle = listener.handle();
      }
      to.close();
      NetSender sender = from.connect(0, handle);
      assertSays(
          assertThrows(RemoteException.class, () -> IbLink.await(sender::isConnected)),
          "refused",
          "NCCL_SOCKET_IFNAME");
    }
  }
}
