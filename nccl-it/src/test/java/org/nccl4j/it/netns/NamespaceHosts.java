package org.nccl4j.it.netns;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.nccl4j.it.netns.LinkDownPlan.Event;
import org.nccl4j.it.netns.LinkDownPlan.Fault;

/**
 * Hosts with several interfaces each, as network namespaces, and faults of their links. A shell
 * with the functions of lib.sh does it, and removes the hosts when it ends. Used by one thread.
 */
final class NamespaceHosts implements FaultyLinks, AutoCloseable {
  private static final Path FOLDER = Path.of("src", "test", "netns").toAbsolutePath();
  private static final String SKIPPED = "SKIPPED: ";
  private static final int PATIENCE_SECONDS = 300;

  /** So slow that a fault meets operations that are under way. */
  private static final int MEGABITS = 1000;

  private static final String DONE = "done ";

  private final Process shell;
  private final PrintWriter in;
  private final BlockingQueue<String> says = new LinkedBlockingQueue<>();

  private NamespaceHosts() throws IOException {
    shell = new ProcessBuilder("sh").directory(FOLDER.toFile()).redirectErrorStream(true).start();
    in = new PrintWriter(shell.getOutputStream(), true, StandardCharsets.UTF_8);
    Thread reader = new Thread(this::read, "netns-reader");
    reader.setDaemon(true);
    reader.start();
  }

  /** Makes hosts; skips the test, with the reason, where that cannot be. */
  static NamespaceHosts make(int hosts, int rails) throws Exception {
    NamespaceHosts made;
    try {
      made = new NamespaceHosts();
    } catch (IOException e) {
      assumeTrue(false, "no shell: " + e.getMessage());
      throw e;
    }
    try {
      made.run(". ./lib.sh; can_make_hosts");
      made.run("trap hosts_down EXIT; trap 'exit 130' INT TERM; hosts_up " + hosts);
      for (int rail = 1; rail < rails; rail++) {
        made.run("further_rail " + rail);
      }
      made.run("limit_links " + MEGABITS);
      return made;
    } catch (Exception | Error e) {
      made.close();
      throw e;
    }
  }

  private void read() {
    try (BufferedReader out = shell.inputReader(StandardCharsets.UTF_8)) {
      for (String line = out.readLine(); line != null; line = out.readLine()) {
        says.add(line);
      }
    } catch (IOException e) {
      // Its end all the same.
    }
    says.add(DONE + "ended");
  }

  /** Runs a command in the shell, which has to succeed. */
  private void run(String command) throws InterruptedException {
    begin(command);
    await();
  }

  private void begin(String command) {
    in.println(command + "; echo " + DONE + "$?");
  }

  @Override
  public void await() throws InterruptedException {
    List<String> printed = new ArrayList<>();
    String said;
    do {
      said = says.poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
      if (said == null) {
        throw new AssertionError("the shell does not answer: " + printed);
      }
      if (said.startsWith(SKIPPED)) {
        assumeTrue(false, said.substring(SKIPPED.length()));
      }
      printed.add(said);
    } while (!said.startsWith(DONE));
    if (!said.equals(DONE + "0")) {
      throw new AssertionError("the shell failed: " + printed);
    }
  }

  /** The beginning of a command that runs on a host. */
  List<String> command(int host) throws InterruptedException {
    begin("echo $PREFIX-" + host);
    String name = says.poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
    await();
    return List.of("ip", "netns", "exec", name, "env", "NCCL_HOSTID=" + name);
  }

  @Override
  public void strike(Event event, int rails) {
    StringBuilder command = new StringBuilder();
    int first = event.of(rails).get(0);
    command.append("sent_more %d eth%d %d".formatted(event.host(), first, event.bytes()));
    command.append(faults(event, rails, true));
    if (event.end() == LinkDownPlan.End.SOON) {
      command.append(" && sleep %d.%03d".formatted(event.millis() / 1000, event.millis() % 1000));
      command.append(faults(event, rails, false));
    }
    begin(command.toString());
  }

  @Override
  public void repair(Event event, int rails) throws InterruptedException {
    run("true" + faults(event, rails, false));
  }

  private static String faults(Event event, int rails, boolean begins) {
    StringBuilder command = new StringBuilder();
    for (int rail : event.of(rails)) {
      command.append(" && %s %d %d".formatted(function(event.fault(), begins), event.host(), rail));
    }
    return command.toString();
  }

  private static String function(Fault fault, boolean begins) {
    return "link_" + (begins ? "" : "not_") + fault.name().toLowerCase(Locale.ROOT);
  }

  /** Has the shell remove the hosts. */
  @Override
  public void close() {
    in.close();
    try {
      if (!shell.waitFor(PATIENCE_SECONDS, TimeUnit.SECONDS)) {
        shell.destroyForcibly();
        throw new AssertionError("the shell does not end");
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
