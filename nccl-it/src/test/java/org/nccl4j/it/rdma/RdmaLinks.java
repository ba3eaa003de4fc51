package org.nccl4j.it.rdma;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.nccl4j.it.api.LineRank;
import org.nccl4j.it.api.RankJvm;
import org.nccl4j.it.netns.FaultyLinks;
import org.nccl4j.it.netns.LinkDownPlan;
import org.nccl4j.it.netns.LinkDownPlan.Event;
import org.nccl4j.it.netns.LinkDownRank;
import org.nccl4j.it.netns.LinkDownRounds;

/**
 * A program in the guest: two ranks between whose ports links fail as seeds say. Rail N is the
 * Ethernet veN at the port swN of the switch, and both ranks use both.
 */
final class RdmaLinks implements FaultyLinks {
  private static final int PATIENCE_SECONDS = 300;

  private Process striking;

  private RdmaLinks() {}

  /** Arguments: the first seed, how many, and seconds after which no other begins. */
  public static void main(String[] arguments) throws Exception {
    long first = Long.parseLong(arguments[0]);
    long seeds = Long.parseLong(arguments[1]);
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(Long.parseLong(arguments[2]));
    List<LineRank> ranks = new ArrayList<>();
    List<Path> logs = new ArrayList<>();
    try {
      for (int rank = 0; rank < 2; rank++) {
        List<String> command =
            new ArrayList<>(List.of("env", "NCCL_HOSTID=host" + rank, "NCCL4J_SINGLE_COPY=off"));
        command.addAll(RankJvm.command());
        command.add(LinkDownRank.class.getName());
        logs.add(Files.createTempFile("rank" + rank, ".log"));
        ranks.add(new LineRank(command, ProcessBuilder.Redirect.to(logs.get(rank).toFile())));
      }
      LinkDownRounds rounds = new LinkDownRounds(new RdmaLinks(), ranks, logs);
      for (long seed = first; seed < first + seeds && System.nanoTime() - end < 0; seed++) {
        rounds.play(LinkDownPlan.of(LinkDownPlan.Network.ROCE, seed));
      }
      rounds.end();
      System.out.println("all right");
    } finally {
      ranks.forEach(LineRank::close);
      for (Path log : logs) {
        System.out.println(log + ":");
        Files.readAllLines(log).stream()
            .filter(line -> line.contains("taken over"))
            .forEach(System.out::println);
      }
    }
  }

  private static String command(Event event, boolean begins) {
    StringBuilder command = new StringBuilder();
    for (int rail : event.of(2)) {
      command.append(
          switch (event.fault()) {
            case DOWN -> begins ? "ip link set ve%d down; ".formatted(rail) : up(rail);
            case NO_CARRIER -> "ip link set sw%d %s; ".formatted(rail, begins ? "down" : "up");
            case SILENT, MUTE, DEAF ->
                "ip link set sw%d %s; ".formatted(rail, begins ? "nomaster" : "master switch");
          });
    }
    return command.toString();
  }

  /** An interface that goes down loses its routes and neighbours, see guest-init.sh. */
  private static String up(int rail) {
    int own = rail + 1;
    int other = 2 - rail;
    return """
        ip link set ve%d up
        ip route replace 10.99.0.%d dev ve%d src 10.99.0.%d table 10%d
        ip neigh replace 10.99.0.%d lladdr "$(cat /sys/class/net/ve%d/address)" dev ve%d
        """
        .formatted(rail, other, rail, own, own, other, other - 1, rail);
  }

  private static Process start(String command) throws IOException {
    return new ProcessBuilder("sh", "-e", "-c", command).inheritIO().start();
  }

  @Override
  public void strike(Event event, int rails) throws IOException {
    String sent = "/sys/class/net/ve%d/statistics/tx_bytes".formatted(event.of(rails).get(0));
    String command =
        """
        looks=0
        read before <%s
        while [ $looks -lt 300 ] && read now <%s && [ $((now - before)) -lt %d ]; do
          looks=$((looks + 1))
        done
        """
                .formatted(sent, sent, event.bytes())
            + command(event, true);
    if (event.end() == LinkDownPlan.End.SOON) {
      command += "sleep %d.%03d; ".formatted(event.millis() / 1000, event.millis() % 1000);
      command += command(event, false);
    }
    striking = start(command);
  }

  @Override
  public void await() throws InterruptedException {
    if (!striking.waitFor(PATIENCE_SECONDS, TimeUnit.SECONDS) || striking.exitValue() != 0) {
      throw new AssertionError("the links cannot be changed: " + striking);
    }
  }

  @Override
  public void repair(Event event, int rails) throws IOException, InterruptedException {
    striking = start(command(event, false));
    await();
  }
}
