package org.nccl4j.it.netns;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Random;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.NcclException;
import org.nccl4j.it.api.ChaosRank;
import org.nccl4j.it.perf.rank.CheckedRank;

/**
 * A rank in a process of its own, for {@link LinkDownRounds}. Reads lines: "id" makes a unique id,
 * "footprint" measures the process, and "play ID NETWORK SEED RANK" creates a communicator and does
 * the operations of the seed's plan. It says "gate" before each phase but the first, and once
 * before it closes, and goes on when it reads "go".
 */
public final class LinkDownRank {
  private LinkDownRank() {}

  /** Reads lines until there are no more. */
  public static void main(String[] arguments) throws IOException {
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] words = line.split(" ");
      System.out.println(
          switch (words[0]) {
            case "id" -> UniqueId.create().toString();
            case "footprint" -> ChaosRank.footprint();
            default ->
                play(
                    words[1],
                    LinkDownPlan.of(
                        LinkDownPlan.Network.valueOf(words[2]), Long.parseLong(words[3])),
                    Integer.parseInt(words[4]),
                    in);
          });
    }
  }

  private static String play(String id, LinkDownPlan plan, int rank, BufferedReader in) {
    Random random = new Random(plan.seed());
    try (CheckedRank checked =
        new CheckedRank(
            id,
            rank,
            plan.hosts(),
            plan.mostBytes(),
            plan.settings(),
            LinkDownPlan.DEADLINE_SECONDS)) {
      for (int phase = 0; phase < plan.phases(); phase++) {
        for (int n = 0; n < LinkDownPlan.OPERATIONS; n++) {
          checked.operation(random, plan.mostBytes());
        }
        System.out.println("gate");
        String word = in.readLine();
        if (!"go".equals(word)) {
          return "bad: told " + word;
        }
      }
    } catch (NcclException | AssertionError | IOException e) {
      return "bad: " + e.toString().replace('\n', ' ');
    }
    return "ok";
  }
}
