package org.nccl4j.api.bootstrap;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.InputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.net.URISyntaxException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import javax.net.ssl.SSLEngine;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.settings.TlsSettings;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.tls.TlsFiles;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;

/** The bootstrap by TLS, with certificates of a test's authorities. */
@Timeout(600)
class TlsTest {
  @TempDir private Path directory;

  private final LeftBehind.Earlier earlier = LeftBehind.Earlier.now();

  @AfterEach
  void nothingIsLeft() throws InterruptedException {
    earlier.nothingElse();
  }

  private static String file(String name) {
    try {
      return Path.of(TlsTest.class.getResource("tls/" + name).toURI()).toString();
    } catch (URISyntaxException e) {
      throw new AssertionError(e);
    }
  }

  private static TlsFiles files(String certificate, String authority) {
    return new TlsFiles(
        file(certificate + ".pem"), file(certificate + ".key"), file(authority + ".pem"));
  }

  private static BootstrapOptions options(TlsFiles files) {
    BootstrapOptions usual = Ranks.LOOPBACK;
    return new BootstrapOptions(
        "",
        "",
        usual.interfaces(),
        usual.family(),
        usual.ports(),
        usual.silence(),
        usual.stagger(),
        files,
        /* observable= */ false);
  }

  private static List<Ranks.Ended<List<byte[]>>> gather(TlsFiles... each) {
    BootstrapId id = BootstrapRoot.create(options(each[0]), Ranks.LONG);
    return Ranks.run(
        each.length,
        rank -> {
          JoinRequest request =
              new JoinRequest(each.length, id, rank, Ranks.LONG, options(each[rank]));
          try (Bootstrap bootstrap = TcpBootstrap.join(request)) {
            byte[] mine = new byte[100_000];
            new Random(rank).nextBytes(mine);
            List<byte[]> all = null;
            for (int round = 0; round < 20; round++) {
              all = bootstrap.allGather(round == 10 ? mine : Arrays.copyOf(mine, round));
            }
            all = bootstrap.allGather(mine);
            return all;
          }
        });
  }

  @Test
  void ranksWhoseCertificatesAreGoodComeTogether() {
    TlsFiles good = files("rank", "authority");
    for (Ranks.Ended<List<byte[]>> each : gather(good, good, good)) {
      List<byte[]> all = each.get();
      for (int rank = 0; rank < 3; rank++) {
        byte[] wanted = new byte[100_000];
        new Random(rank).nextBytes(wanted);
        assertTrue(Arrays.equals(wanted, all.get(rank)));
      }
    }
  }

  /** A bundle of authorities has names in any encoding between them, and old ones. */
  @Test
  void anExpiredAuthorityBesideAGoodOneIsLeftOut() throws Exception {
    Path bundle = directory.resolve("bundle.pem");
    Files.writeString(bundle, "# Autorit\u00e9\n", StandardCharsets.ISO_8859_1);
    for (String each : List.of("expired", "authority")) {
      Files.write(
          bundle, Files.readAllBytes(Path.of(file(each + ".pem"))), StandardOpenOption.APPEND);
    }
    TlsFiles good = new TlsFiles(file("rank.pem"), file("rank.key"), bundle.toString());
    gather(good, good).forEach(Ranks.Ended::get);
    InvalidArgumentException none =
        assertThrows(InvalidArgumentException.class, () -> files("rank", "expired").context());
    assertTrue(none.getMessage().contains("NCCL4J_TLS_CA="), none.getMessage());
  }

  @Test
  void someOfTheRanksComeTogetherAgain() {
    BootstrapOptions options = options(files("rank", "authority"));
    BootstrapId id = BootstrapRoot.create(options, Ranks.LONG);
    Ranks.run(
            3,
            rank -> {
              try (Bootstrap all =
                  TcpBootstrap.join(new JoinRequest(3, id, rank, Ranks.LONG, options))) {
                List<byte[]> points = all.allGather(all.meetingPoint());
                if (rank == 1) {
                  return 2;
                }
                try (Bootstrap some = all.reunite(List.of(0, 2), points.get(0), "key")) {
                  return some.allGather(new byte[1]).size();
                }
              }
            })
        .forEach(each -> assertEquals(2, each.get()));
  }

  /** The problem that a rank has with a root; a rank that fits the root is at home there. */
  private static String refused(TlsFiles root, TlsFiles rank) {
    BootstrapId id = BootstrapRoot.create(options(root), Ranks.LONG);
    JoinRequest stranger = new JoinRequest(2, id, 1, Ranks.LONG, options(rank));
    NcclException e = assertThrows(NcclException.class, () -> TcpBootstrap.join(stranger));
    JoinRequest friend = new JoinRequest(1, id, 0, Ranks.LONG, options(root));
    try (Bootstrap bootstrap = TcpBootstrap.join(friend)) {
      assertEquals(1, bootstrap.allGather(new byte[1]).size());
    }
    return e.problem();
  }

  @Test
  void aRankByAnotherAuthorityIsRefused() {
    TlsFiles good = files("rank", "authority");
    String problem = refused(good, files("stranger", "other-authority"));
    assertTrue(problem.contains("TLS: ") && problem.contains("NCCL4J_TLS_CA"), problem);
    TlsFiles trusting =
        new TlsFiles(file("stranger.pem"), file("stranger.key"), file("both-authorities.pem"));
    problem = refused(good, trusting);
    assertTrue(problem.contains("accept this side's certificate"), problem);
  }

  @Test
  void tlsOnOneSideAloneIsSaid() {
    TlsFiles good = files("rank", "authority");
    String problem = refused(good, TlsFiles.NONE);
    assertTrue(problem.contains("cannot reach the bootstrap root"), problem);
    assertTrue(problem.contains("it asks for TLS; set NCCL4J_TLS_CERT on all ranks"), problem);
    problem = refused(TlsFiles.NONE, good);
    assertTrue(problem.contains("TLS"), problem);
  }

  /** Nothing that a rank says can be read on the way. */
  @Test
  void aStrangerGetsNothingButTls() throws Exception {
    BootstrapId id = BootstrapRoot.create(options(files("rank", "authority")), Ranks.LONG);
    try (Socket socket =
        new Socket(InetAddress.getLoopbackAddress(), id.addresses().get(0).getPort())) {
      socket.setSoTimeout(60_000);
      socket
          .getOutputStream()
          .write(Handshake.client(id.secret(), Handshake.Service.ROOT).opening());
      InputStream in = socket.getInputStream();
      byte[] answer = in.readAllBytes();
      assertFalse(new String(answer, StandardCharsets.ISO_8859_1).contains("NCCL4J"));
    }
    try (Bootstrap bootstrap =
        TcpBootstrap.join(
            new JoinRequest(1, id, 0, Ranks.LONG, options(files("rank", "authority"))))) {
      assertEquals(1, bootstrap.allGather(new byte[1]).size());
    }
  }

  /** Hellos of TLS that are changed somewhere, or cut, disturb no rank that comes later. */
  @Test
  void changedHellosDisturbNobody() throws Exception {
    BootstrapOptions options = options(files("rank", "authority"));
    BootstrapId id = BootstrapRoot.create(options, Ranks.LONG);
    long seed = Long.getLong("nccl4j.seed", 1);
    System.out.println("-Dnccl4j.seed=" + seed);
    Random random = new Random(seed);
    SSLEngine engine = options.tls().context().orElseThrow().createSSLEngine();
    engine.setUseClientMode(true);
    ByteBuffer hello = ByteBuffer.allocate(engine.getSession().getPacketBufferSize());
    engine.wrap(ByteBuffer.allocate(0), hello);
    int hellos = Boolean.getBoolean("nccl4j.thorough") ? 300 : 60;
    for (int n = 0; n < hellos; n++) {
      byte[] changed = Arrays.copyOf(hello.array(), hello.position());
      changed[random.nextInt(changed.length)] ^= (byte) (1 + random.nextInt(255));
      int length = n % 3 == 0 ? random.nextInt(changed.length) : changed.length;
      try (Socket socket =
          new Socket(InetAddress.getLoopbackAddress(), id.addresses().get(0).getPort())) {
        socket.getOutputStream().write(changed, 0, length);
      }
    }
    Ranks.run(
            2,
            rank -> {
              try (Bootstrap mine =
                  TcpBootstrap.join(new JoinRequest(2, id, rank, Ranks.LONG, options))) {
                return mine.allGather(new byte[rank]).size();
              }
            })
        .forEach(each -> assertEquals(2, each.get()));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "expired.pem | expired.key | authority.pem | NCCL4J_TLS_CERT= | expired.pem",
        "rank.pem | stranger.key | authority.pem | is not the key of | stranger.key",
        "rank.pem | old-format.key | authority.pem | EC PRIVATE KEY | openssl pkcs8",
        "rank.pem | rank.pem | authority.pem | CERTIFICATE where | openssl pkcs8",
        "rank.pem | rank.key | other-authority.pem | is not signed by an authority in | other-authority.pem",
        "rank.key | rank.key | authority.pem | NCCL4J_TLS_CERT= | rank.key",
        "rank.pem | rank.key | generate.sh | NCCL4J_TLS_CA= | generate.sh",
      })
  void badFilesAreNamed(
      String certificate, String key, String authority, String says, String alsoSays) {
    TlsFiles bad = new TlsFiles(file(certificate), file(key), file(authority));
    InvalidArgumentException e =
        assertThrows(
            InvalidArgumentException.class, () -> BootstrapRoot.create(options(bad), Ranks.LONG));
    assertTrue(e.problem().contains(says), e.problem());
    assertTrue((e.problem() + e.remedy()).contains(alsoSays), e.problem() + e.remedy());
  }

  @Test
  void aFileThatIsMissingOrCutIsNamed() throws Exception {
    Path cut = directory.resolve("cut.key");
    String key = Files.readString(Path.of(file("rank.key")));
    Files.writeString(cut, key.replaceFirst("\n.{20}", "\n"));
    Path missing = directory.resolve("missing.pem");
    for (TlsFiles bad :
        List.of(
            new TlsFiles(file("rank.pem"), cut.toString(), file("authority.pem")),
            new TlsFiles(missing.toString(), file("rank.key"), file("authority.pem")))) {
      InvalidArgumentException e =
          assertThrows(
              InvalidArgumentException.class, () -> BootstrapRoot.create(options(bad), Ranks.LONG));
      assertTrue(e.problem().contains(directory.toString()), e.problem());
    }
  }

  @Test
  void allThreeSettingsOrNone() {
    Settings settings = Settings.ofProcess(Map.of("NCCL4J_TLS_CERT", file("rank.pem")));
    InvalidArgumentException e =
        assertThrows(InvalidArgumentException.class, () -> TlsSettings.files(settings));
    assertTrue(e.problem().contains("some are not set"), e.problem());
  }
}
