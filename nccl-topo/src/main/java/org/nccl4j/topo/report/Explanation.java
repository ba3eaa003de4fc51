package org.nccl4j.topo.report;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.search.MachineGraphs;

/**
 * Explains a machine in sentences: each names the fact, the rule, and the setting that would change
 * it. Equal sentences about several devices are printed once.
 */
public final class Explanation {
  private final Map<String, Map<String, List<String>>> sections = new LinkedHashMap<>();

  private Explanation() {}

  /** A cluster explained. */
  public static String of(Cluster cluster, TopoSettings settings) {
    Explanation explanation = new Explanation();
    new ExplainLinks(explanation).write(cluster.whole().machine());
    for (MachineGraphs domain : cluster.domains()) {
      new ExplainPeers(explanation, domain.routes(), settings).write();
      new ExplainNets(explanation, domain.routes(), settings).write();
    }
    new ExplainDomains(explanation).write(cluster);
    new ExplainChannels(explanation, settings).write(cluster);
    new ExplainChoice(explanation).write(cluster.costs());
    return explanation.text();
  }

  /** Adds a sentence about something; what is about several things is listed together. */
  void say(String section, String about, String sentence) {
    sections
        .computeIfAbsent(section, name -> new LinkedHashMap<>())
        .computeIfAbsent(sentence, name -> new ArrayList<>())
        .add(about);
  }

  private String text() {
    StringBuilder out = new StringBuilder();
    sections.forEach(
        (section, sentences) -> {
          out.append(section).append('\n');
          sentences.forEach(
              (sentence, about) -> {
                String who = about.stream().distinct().collect(Collectors.joining(", "));
                out.append("  ").append(who).append(": ").append(sentence).append('\n');
              });
          out.append('\n');
        });
    return out.toString();
  }
}
