package org.nccl4j.testkit;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** A JVM that is rank 1 of 2, {@link PeerMain}, talked with by lines; killed when closed. */
final class PeerProcess implements AutoCloseable {
  /** For all that the other process does between two lines. */
  private static final long PATIENCE_SECONDS = Long.getLong("nccl4j.testkit.patience", 90);

  private static final long END_SECONDS = 5;

  private final Process process;
  private final BufferedReader in;
  private final BufferedWriter out;

  PeerProcess(CheckedTransport checked) throws IOException {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(List.of("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"));
    if (Runtime.version().feature() >= 24) {
      command.add("--enable-native-access=ALL-UNNAMED");
    }
    command.addAll(List.of("-cp", checked.childClassPath(), PeerMain.class.getName()));
    command.add(checked.provider().getClass().getName());
    checked.settings().forEach((name, value) -> command.add(name + "=" + value));
    process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    in = process.inputReader();
    out = process.outputWriter();
  }

  long processId() {
    return process.pid();
  }

  /** The handles of its sender and its receiver. */
  List<byte[]> expectHandles() throws IOException {
    String[] words = line().split(" ", -1);
    Expect.that(words.length == 3 && words[0].equals("handles"), "it says %s", List.of(words));
    return List.of(HexFormat.of().parseHex(words[1]), HexFormat.of().parseHex(words[2]));
  }

  void tellHandles(byte[] sender, byte[] receiver) throws IOException {
    tell(HexFormat.of().formatHex(sender) + " " + HexFormat.of().formatHex(receiver));
  }

  void tell(String line) throws IOException {
    out.write(line + "\n");
    out.flush();
  }

  void expect(String line) throws IOException {
    Expect.equal(line, line(), "the other process's answer");
  }

  private String line() throws IOException {
    CompletableFuture<Void> late =
        CompletableFuture.runAsync(
            process::destroyForcibly,
            CompletableFuture.delayedExecutor(PATIENCE_SECONDS, TimeUnit.SECONDS));
    String line = in.readLine();
    if (!late.cancel(false) && line == null) {
      throw new AssertionError(
          "the other process has said nothing for %d s: a call of the transport does not return"
              .formatted(PATIENCE_SECONDS));
    }
    if (line == null) {
      process.onExit().completeOnTimeout(process, END_SECONDS, TimeUnit.SECONDS).join();
      String how =
          process.isAlive() ? "closed its output" : "ended, with status " + process.exitValue();
      kill();
      throw new AssertionError("the other process " + how);
    }
    return line;
  }

  void kill() {
    process.destroyForcibly().onExit().join();
  }

  @Override
  public void close() {
    kill();
  }
}
