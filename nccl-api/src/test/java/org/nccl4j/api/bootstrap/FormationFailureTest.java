package org.nccl4j.api.bootstrap;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.channels.ServerSocketChannel;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.ThrowingConsumer;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.bootstrap.connection.ConnectionListener;
import org.nccl4j.api.bootstrap.connection.EventLoop;
import org.nccl4j.api.bootstrap.root.ProcessIdentity;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.ListeningSocket;
import org.nccl4j.api.wire.PortRange;
import org.nccl4j.api.wire.tls.PeerCredentials;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.support.Patience;

/** Each cause of a failed creation is named on every rank. */
class FormationFailureTest {
  private static final Duration SHORT = Duration.ofSeconds(1);

  /** A rank that cannot join tells the others only if the root answers it within seconds. */
  private static final Duration TOLD_WITHIN = Duration.ofSeconds(8);

  /** Of a service that no machine has any more, and below those that the system gives away. */
  private static final int NOBODYS_PORT = 1;

  private static final int MOST_PORTS = 3;

  private final LeftBehind.Earlier earlier = LeftBehind.Earlier.now();

  @AfterEach
  void nothingIsLeft() throws InterruptedException {
    earlier.nothingElse();
  }

  @ParameterizedTest
  @ValueSource(ints = {2, 8})
  void aRankThatNeverComes(int nRanks) throws Throwable {
    LongerDeadline.retry(SHORT, deadline -> oneNeverComes(nRanks, deadline));
  }

  private static void oneNeverComes(int nRanks, Duration deadline) {
    BootstrapId id = Ranks.newId();
    int missing = nRanks / 2;
    List<Ranks.Ended<Bootstrap>> all =
        Ranks.run(
            nRanks - 1,
            index -> {
              int rank = index < missing ? index : index + 1;
              return TcpBootstrap.join(Ranks.request(id, nRanks, rank, deadline));
            });
    for (Ranks.Ended<Bootstrap> each : all) {
      assertSays(
          TimeoutException.class, each.failure(), "rank " + missing + " of " + nRanks + " did not");
    }
  }

  @Test
  void severalRanksThatNeverCome() throws Throwable {
    LongerDeadline.retry(SHORT, FormationFailureTest::severalNeverCome);
  }

  private static void severalNeverCome(Duration deadline) {
    BootstrapId id = Ranks.newId();
    List<Ranks.Ended<Bootstrap>> all =
        Ranks.run(2, rank -> TcpBootstrap.join(Ranks.request(id, 6, rank, deadline)));
    for (Ranks.Ended<Bootstrap> each : all) {
      assertSays(
          TimeoutException.class, each.failure(), "ranks 2, 3, 4, 5 of 6", "ranks 0, 1 joined");
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {2, 8})
  void aRankWithAnotherCount(int nRanks) throws Throwable {
    LongerDeadline.retry(SHORT, deadline -> oneHasAnotherCount(nRanks, deadline));
  }

  private static void oneHasAnotherCount(int nRanks, Duration deadline) {
    BootstrapId id = Ranks.newId();
    List<Ranks.Ended<Bootstrap>> all =
        Ranks.run(
            nRanks,
            rank ->
                TcpBootstrap.join(
                    Ranks.request(id, rank == 1 ? nRanks + 1 : nRanks, rank, deadline)));
    for (Ranks.Ended<Bootstrap> each : all) {
      assertSays(
          InvalidUsageException.class, each.failure(), "with " + (nRanks + 1), "with " + nRanks);
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {2, 8})
  void aRankThatComesTwice(int nRanks) throws Throwable {
    LongerDeadline.retry(SHORT, deadline -> oneComesTwice(nRanks, deadline));
  }

  private static void oneComesTwice(int nRanks, Duration deadline) {
    BootstrapId id = Ranks.newId();
    List<Ranks.Ended<Bootstrap>> all =
        Ranks.run(
            nRanks,
            rank ->
                TcpBootstrap.join(
                    Ranks.request(id, nRanks, rank == nRanks - 1 ? 0 : rank, deadline)));
    for (Ranks.Ended<Bootstrap> each : all) {
      assertSays(
          InvalidUsageException.class,
          each.failure(),
          "rank 0 joined twice",
          "process " + ProcessHandle.current().pid());
    }
  }

  /** Its thread has an interruption before it has reached the root, and keeps it. */
  @Test
  void aRankThatIsInterrupted() {
    BootstrapId id = Ranks.newId();
    List<Ranks.Ended<Bootstrap>> all =
        Ranks.run(
            2,
            rank -> {
              if (rank == 0) {
                return TcpBootstrap.join(Ranks.request(id, 2, rank, Ranks.LONG));
              }
              Thread.currentThread().interrupt();
              try {
                return TcpBootstrap.join(Ranks.request(id, 2, rank, Ranks.LONG));
              } finally {
                assertTrue(Thread.interrupted());
              }
            });
    assertEquals(ErrorId.INTERRUPTED, all.get(1).failure().id());
    assertSays(RemoteException.class, all.get(0).failure(), "rank 1", "was interrupted");
  }

  @Test
  void aRankOfAnotherVersion() {
    BootstrapId id = Ranks.newId();
    ProcessIdentity ours = ProcessIdentity.ofThisProcess();
    ProcessIdentity another =
        new ProcessIdentity(ours.host(), ours.pid(), ours.token(), "9.9.9/77");
    List<Ranks.Ended<Bootstrap>> all =
        Ranks.run(
            3,
            rank ->
                TcpBootstrap.join(
                    Ranks.request(id, 3, rank, Ranks.LONG), rank == 1 ? another : ours));
    for (Ranks.Ended<Bootstrap> each : all) {
      assertSays(
          InvalidUsageException.class, each.failure(), "rank 1 (", "9.9.9/77", ours.version());
    }
  }

  @Test
  void aRootThatIsGone() {
    BootstrapId id = idAt(NOBODYS_PORT);
    NcclException failure = joinFails(id, Ranks.LONG);
    assertSays(SystemErrorException.class, failure, "127.0.0.1:" + NOBODYS_PORT, "ECONNREFUSED");
    assertTrue(failure.remedy().contains("NCCL_SOCKET_IFNAME"), failure.remedy());
    assertTrue(failure.remedy().contains("NCCL_COMM_ID"), failure.remedy());
    assertTrue(failure.remedy().contains("firewall"), failure.remedy());
    // The time that it took, and the deadline.
    Matcher times =
        Pattern.compile("after ([0-9.]+) s of " + Patience.text(Ranks.LONG))
            .matcher(failure.getMessage());
    assertTrue(times.find(), failure.getMessage());
    assertTrue(Double.parseDouble(times.group(1)) < Ranks.LONG.toSeconds(), failure.getMessage());
  }

  @Test
  void aRootThatAcceptsAndSaysNothing() throws Throwable {
    LongerDeadline.retry(SHORT, FormationFailureTest::rootSaysNothing);
  }

  private static void rootSaysNothing(Duration deadline) throws IOException {
    try (ServerSocket silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
      NcclException failure = joinFails(idAt(silent.getLocalPort()), deadline);
      String bound = "of " + Patience.text(deadline);
      assertSays(SystemErrorException.class, failure, "no answer", bound);
    }
  }

  /** As a root that has all its ranks: another program's, with the same NCCL_COMM_ID. */
  @Test
  void aRootThatClosesBeforeItAnswersIsNotCalledDead() {
    byte[] secret = new byte[16];
    EventLoop loop = EventLoop.acquire();
    ServerSocketChannel socket =
        ListeningSocket.open("a test", InetAddress.getLoopbackAddress(), PortRange.ANY);
    ConnectionListener listener =
        new ConnectionListener(
            loop,
            socket,
            Handshake.Service.ROOT,
            PeerCredentials.in(secret),
            Ranks.LONG,
            (connection, type, first) -> connection.close());
    loop.execute(listener::start);
    InetSocketAddress here =
        new InetSocketAddress(InetAddress.getLoopbackAddress(), ListeningSocket.port(socket));
    BootstrapId id = new BootstrapId(true, List.of(here), secret);
    NcclException failure =
        Ranks.run(1, any -> TcpBootstrap.join(Ranks.request(id, 2, 1, Ranks.LONG)))
            .get(0)
            .failure();
    loop.execute(listener::close);
    loop.release();
    assertSays(SystemErrorException.class, failure, "closed the connection before it answered");
    assertTrue(failure.remedy().contains("another program runs with this"), failure.remedy());
  }

  @Test
  void aRankWithAnotherSecret() throws Throwable {
    LongerDeadline.retry(SHORT, FormationFailureTest::oneHasAnotherSecret);
  }

  private static void oneHasAnotherSecret(Duration deadline) {
    BootstrapId right = Ranks.newId();
    BootstrapId wrong = new BootstrapId(false, right.addresses(), new byte[16]);
    assertSays(
        SystemErrorException.class,
        joinFails(wrong, Ranks.LONG),
        "does not accept this id's secret");
    Ranks.Ended<Bootstrap> alone =
        Ranks.run(1, rank -> TcpBootstrap.join(Ranks.request(right, 2, 0, deadline))).get(0);
    assertSays(
        TimeoutException.class,
        alone.failure(),
        "rank 1 of 2 did not join",
        "refused meanwhile",
        "does not know the communicator's secret");
  }

  /** A rank that reaches the root and then finds that it cannot come tells the root why. */
  @Test
  void aRankThatCannotIntroduceItself() throws Exception {
    try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      int port = taken.getLocalPort();
      BootstrapOptions options =
          Ranks.loopback(Map.of("NCCL4J_BOOTSTRAP_PORTS", port + "-" + port));
      BootstrapId id = Ranks.newId();
      List<Ranks.Ended<Bootstrap>> all =
          Ranks.run(
              3,
              rank ->
                  TcpBootstrap.join(
                      rank == 1
                          ? new JoinRequest(3, id, 1, Ranks.LONG, options)
                          : Ranks.request(id, 3, rank, Ranks.LONG)));
      assertSays(SystemErrorException.class, all.get(1).failure(), "EADDRINUSE");
      for (int rank : new int[] {0, 2}) {
        assertSays(RemoteException.class, all.get(rank).failure(), "rank 1 (host ", "EADDRINUSE");
      }
    }
  }

  @Test
  void aRankThatDoesNotEvenDial() throws Throwable {
    NcclException cause =
        new InvalidArgumentException(ErrorId.SETTING, "NCCL_X is \"banana\"", "set a number");
    LongerDeadline.retry(TOLD_WITHIN, deadline -> anotherRankDoesNotDial(cause, deadline));
  }

  @Test
  void aLongReasonReachesTheOtherRanks() throws Throwable {
    String many = "a".repeat(5000);
    NcclException cause =
        new InvalidArgumentException(ErrorId.SETTING, "NCCL_X is \"banana\"" + many, many);
    LongerDeadline.retry(TOLD_WITHIN, deadline -> anotherRankDoesNotDial(cause, deadline));
  }

  private static void anotherRankDoesNotDial(NcclException cause, Duration deadline) {
    BootstrapId id = Ranks.newId();
    List<Ranks.Ended<Bootstrap>> all =
        Ranks.run(
            3,
            rank -> {
              if (rank == 1) {
                TcpBootstrap.tellUnable(3, List.of(id), 1, cause, Ranks.LOOPBACK);
                return null;
              }
              return TcpBootstrap.join(Ranks.request(id, 3, rank, deadline));
            });
    for (int rank : new int[] {0, 2}) {
      assertSays(RemoteException.class, all.get(rank).failure(), "rank 1 (host ", "banana");
    }
  }

  @Test
  void manyThatNeverComeAreCountedAndFewNamed() throws Throwable {
    LongerDeadline.retry(Duration.ofMillis(800), FormationFailureTest::manyNeverCome);
    assertThrows(
        InvalidArgumentException.class,
        () -> Ranks.request(idAt(NOBODYS_PORT), Integer.MAX_VALUE, 0, Ranks.LONG));
  }

  private static void manyNeverCome(Duration deadline) {
    NcclException alone =
        Ranks.run(1, rank -> TcpBootstrap.join(Ranks.request(Ranks.newId(), 200, 0, deadline)))
            .get(0)
            .failure();
    assertSays(TimeoutException.class, alone, "31, 32 and 167 more of 200 did not join", "rank 0");
  }

  @Test
  void aPortInUse() throws Exception {
    try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      int port = taken.getLocalPort();
      BootstrapOptions options =
          Ranks.loopback(Map.of("NCCL4J_BOOTSTRAP_PORTS", port + "-" + port));
      SystemErrorException failure =
          assertThrows(SystemErrorException.class, () -> BootstrapRoot.create(options, Ranks.LONG));
      assertSays(SystemErrorException.class, failure, "EADDRINUSE", "port " + taken.getLocalPort());
      assertTrue(
          failure.remedy().contains("one for each process of each communicator"), failure.remedy());
    }
  }

  @Test
  void theNextPortOfARangeWhenOneIsInUse() throws Exception {
    try (ServerSocketChannel taken =
        ListeningSocket.open(
            "a test", InetAddress.getLoopbackAddress(), new PortRange(20000, 30000))) {
      int port = ListeningSocket.port(taken);
      try (ServerSocketChannel other =
          ListeningSocket.open(
              "a test", InetAddress.getLoopbackAddress(), new PortRange(port, port + 1000))) {
        assertTrue(
            ListeningSocket.port(other) > port && ListeningSocket.port(other) <= port + 1000);
      }
    }
  }

  @Test
  void rankZeroCannotHaveThePortOfTheCommId() throws Exception {
    try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      BootstrapId id = commId("127.0.0.1:" + taken.getLocalPort());
      assertSays(SystemErrorException.class, joinFails(id, Ranks.LONG), "EADDRINUSE");
    }
  }

  @Test
  void aRankWithAnotherCommSecretFailsSoonAndNamesTheSetting() throws Throwable {
    LongerDeadline.retry(Duration.ofSeconds(12), FormationFailureTest::oneHasAnotherCommSecret);
  }

  private static void oneHasAnotherCommSecret(Duration deadline) throws IOException {
    int port = freePort();
    List<Ranks.Ended<Bootstrap>> all =
        Ranks.run(
            2,
            rank -> {
              BootstrapId id = commId("127.0.0.1:" + port, rank == 0 ? "right" : "wrong");
              return TcpBootstrap.join(Ranks.request(id, 2, rank, deadline));
            });
    assertSays(
        SystemErrorException.class, all.get(1).failure(), "does not accept this id's secret");
    for (Ranks.Ended<Bootstrap> each : all) {
      assertTrue(each.failure().remedy().contains("NCCL4J_COMM_SECRET"), each.failure().remedy());
    }
  }

  @Test
  void theRankThatStartsTheRootTellsWhyItDoesNotJoin() throws Throwable {
    atFreePort(FormationFailureTest::theRootsRankDoesNotJoin);
  }

  private static void theRootsRankDoesNotJoin(int port) {
    NcclException cause =
        new InvalidArgumentException(ErrorId.SETTING, "NCCL_X is \"banana\"", "set a number");
    List<Ranks.Ended<Bootstrap>> all =
        Ranks.run(
            3,
            rank -> {
              JoinRequest request = Ranks.request(commId("127.0.0.1:" + port), 3, rank, Ranks.LONG);
              if (rank == 0) {
                TcpBootstrap.tellUnable(request, cause);
                return null;
              }
              try (Bootstrap made = TcpBootstrap.join(request)) {
                made.barrier();
                return made;
              }
            });
    for (int rank : new int[] {1, 2}) {
      assertSays(RemoteException.class, all.get(rank).failure(), "rank 0 (host ", "banana");
    }
  }

  @Test
  void aCommIdWhosePortIsTooHigh() {
    InvalidArgumentException failure =
        assertThrows(InvalidArgumentException.class, () -> commId("127.0.0.1:99999"));
    assertSays(InvalidArgumentException.class, failure, "port is not within 1 to 65535");
    failure =
        assertThrows(
            InvalidArgumentException.class, () -> BootstrapRoot.ofJob("h:", Ranks.LOOPBACK));
    assertSays(InvalidArgumentException.class, failure, "the job is \"h:\"");
  }

  @Test
  void anInterfaceThatIsNotThere() {
    BootstrapOptions options = Ranks.options(Map.of("NCCL_SOCKET_IFNAME", "=nosuch0"));
    InvalidArgumentException failure =
        assertThrows(
            InvalidArgumentException.class, () -> BootstrapRoot.create(options, Ranks.LONG));
    assertSays(InvalidArgumentException.class, failure, "nosuch0", "lo");
  }

  @Test
  void ranksOutOfRange() {
    BootstrapId id = idAt(1);
    for (int rank : new int[] {-1, 2, Integer.MAX_VALUE}) {
      assertThrows(InvalidArgumentException.class, () -> Ranks.request(id, 2, rank, Ranks.LONG));
    }
    assertThrows(InvalidArgumentException.class, () -> Ranks.request(id, 0, 0, Ranks.LONG));
    assertThrows(InvalidArgumentException.class, () -> Ranks.request(id, 1, 0, Duration.ZERO));
  }

  @Test
  void anIdThatNobodyUsesGoesAway() throws InterruptedException {
    BootstrapRoot.create(Ranks.LOOPBACK, Duration.ofMillis(1));
    earlier.nothingElse();
  }

  @Test
  void anIdFromASettingBringsRanksTogetherAgainAndAgain() throws Throwable {
    atFreePort(FormationFailureTest::ranksComeTogetherAgainAndAgain);
  }

  private static void ranksComeTogetherAgainAndAgain(int port) {
    for (int round = 0; round < 3; round++) {
      List<Ranks.Ended<Integer>> all =
          Ranks.run(
              3,
              rank -> {
                BootstrapId id = commId("127.0.0.1:" + port);
                try (Bootstrap made = TcpBootstrap.join(Ranks.request(id, 3, rank, Ranks.LONG))) {
                  return made.allGather(new byte[rank]).get(2).length;
                }
              });
      all.forEach(each -> assertEquals(2, each.get()));
    }
  }

  /** Runs a test that needs a port, and again at another where that has been taken meanwhile. */
  private static void atFreePort(ThrowingConsumer<Integer> test) throws Throwable {
    for (int tries = 1; tries < MOST_PORTS; tries++) {
      int port = freePort();
      try {
        test.accept(port);
        return;
      } catch (AssertionError | RuntimeException e) {
        System.out.println("failed at port " + port + ": " + e + ", " + e.getCause());
      }
    }
    test.accept(freePort());
  }

  /** Below those that the system gives to any connection meanwhile. */
  private static int freePort() throws IOException {
    int first = ThreadLocalRandom.current().nextInt(20_000, 30_000);
    try (ServerSocketChannel free =
        ListeningSocket.open(
            "a test", InetAddress.getLoopbackAddress(), new PortRange(first, 32_000))) {
      return ListeningSocket.port(free);
    }
  }

  private static BootstrapId commId(String address) {
    return commId(address, "");
  }

  private static BootstrapId commId(String address, String secret) {
    return BootstrapRoot.create(
        Ranks.options(Map.of("NCCL_COMM_ID", address, "NCCL4J_COMM_SECRET", secret)), Ranks.LONG);
  }

  private static BootstrapId idAt(int port) {
    InetSocketAddress address = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
    return new BootstrapId(false, List.of(address), new byte[16]);
  }

  private static NcclException joinFails(BootstrapId id, Duration deadline) {
    return Ranks.run(1, rank -> TcpBootstrap.join(Ranks.request(id, 2, 0, deadline)))
        .get(0)
        .failure();
  }

  static void assertSays(Class<?> kind, NcclException failure, String... parts) {
    assertEquals(kind, failure.getClass(), failure.toString());
    for (String part : parts) {
      assertTrue(failure.problem().contains(part), () -> "\"" + part + "\" in: " + failure);
    }
  }
}
