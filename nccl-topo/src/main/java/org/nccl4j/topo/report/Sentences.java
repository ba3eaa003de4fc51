package org.nccl4j.topo.report;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * The sentences of an explanation, by section. Equal sentences about several devices are joined
 * into one.
 */
final class Sentences {
  private final Map<String, Map<String, List<String>>> sections = new LinkedHashMap<>();

  /** Adds a sentence about something; equal sentences about several things become one. */
  void say(String section, String about, String sentence) {
    sections
        .computeIfAbsent(section, name -> new LinkedHashMap<>())
        .computeIfAbsent(sentence, name -> new ArrayList<>())
        .add(about);
  }

  /** Returns the explanation. */
  String text() {
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
