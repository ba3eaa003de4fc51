package org.nccl4j.api.bootstrap;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Stream;
import org.nccl4j.device.NcclException;

/** A rank in a Java process of its own, which says on its output how far it has come. */
final class RankProcess implements AutoCloseable {
  private final Process process;
  private final BufferedReader output;

  private RankProcess(Process process) {
    this.process = process;
    output =
        new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
  }

  /**
   * Starts one.
   *
   * @param id in hexadecimal, several with commas between; "new" to have it make one, which is the
   *     first line it says; "root" to have it make one and not join
   */
  static RankProcess start(String id, int nRanks, int rank) throws IOException {
    return start(id, nRanks, rank, Ranks.LONG.toMillis());
  }

  /** As above, with some milliseconds of silence that it allows. */
  static RankProcess start(String id, int nRanks, int rank, long silence) throws IOException {
    String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
    String path =
        System.getProperty("java.class.path")
            + System.getProperty("path.separator")
            + System.getProperty("jdk.module.path", "");
    return new RankProcess(
        new ProcessBuilder(
                List.of(
                    java,
                    "-Xshare:auto",
                    "-XX:TieredStopAtLevel=1",
                    "-XX:+UseSerialGC",
                    "-Dnccl4j.test.silence=" + silence,
                    "-cp",
                    classesOf(RankProcess.class)
                        + System.getProperty("path.separator")
                        + classesOf(Bootstrap.class)
                        + System.getProperty("path.separator")
                        + path,
                    RankProcess.class.getName(),
                    id,
                    Integer.toString(nRanks),
                    Integer.toString(rank)))
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start());
  }

  private static String classesOf(Class<?> type) {
    return Path.of(type.getProtectionDomain().getCodeSource().getLocation().getPath()).toString();
  }

  long pid() {
    return process.pid();
  }

  /** The next line it says; null when it has ended. */
  String says() throws IOException {
    return output.readLine();
  }

  /** Has it close its communicator and end by itself. */
  void leave() throws IOException, InterruptedException {
    process.getOutputStream().close();
    process.waitFor();
  }

  /** Stops it, or lets it go on. */
  void signal(String name) throws IOException, InterruptedException {
    new ProcessBuilder("kill", "-" + name, Long.toString(pid())).start().waitFor();
  }

  void kill() {
    process.destroyForcibly();
  }

  @Override
  public void close() throws IOException {
    process.destroyForcibly();
    output.close();
  }

  /** The other side: joins, says "joined", waits for a failure, says it, or for its input's end. */
  public static void main(String[] arguments) throws InterruptedException {
    List<BootstrapId> ids;
    if (arguments[0].equals("new") || arguments[0].equals("root")) {
      ids = Ranks.newIds(1);
      System.out.println(HexFormat.of().formatHex(ids.get(0).encode()));
      if (arguments[0].equals("root")) {
        waitForEnd(new CountDownLatch(1));
        return;
      }
    } else {
      ids =
          Stream.of(arguments[0].split(","))
              .map(id -> BootstrapId.decode(HexFormat.of().parseHex(id)))
              .toList();
    }
    int nRanks = Integer.parseInt(arguments[1]);
    int rank = Integer.parseInt(arguments[2]);
    CountDownLatch failed = new CountDownLatch(1);
    Bootstrap bootstrap = TcpBootstrap.join(Ranks.request(ids, nRanks, rank, Ranks.LONG));
    bootstrap.onFailure(
        (NcclException cause) -> {
          System.out.println(cause.problem());
          failed.countDown();
        });
    System.out.println("joined");
    Thread untilToldToLeave = new Thread(() -> waitForEnd(failed));
    untilToldToLeave.setDaemon(true);
    untilToldToLeave.start();
    failed.await();
    bootstrap.close();
  }

  private static void waitForEnd(CountDownLatch then) {
    try {
      while (System.in.read() >= 0) {
        Thread.onSpinWait();
      }
    } catch (IOException e) {
      System.err.println(e);
    }
    then.countDown();
  }
}
