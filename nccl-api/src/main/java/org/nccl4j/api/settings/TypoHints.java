package org.nccl4j.api.settings;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;

/** Finds names of settings that were probably meant to be others. */
final class TypoHints {
  /** More edits than this are another word. */
  private static final int NEAR = 2;

  private TypoHints() {}

  static List<String> hints(SortedMap<String, Environment.Value> set, List<String> known) {
    List<String> hints = new ArrayList<>();
    for (Map.Entry<String, Environment.Value> entry : set.entrySet()) {
      if (known.contains(entry.getKey())) {
        continue;
      }
      String nearest = nearest(entry.getKey(), known);
      if (nearest != null) {
        hints.add(
            "%s (%s) is no setting; did you mean %s?"
                .formatted(entry.getKey(), entry.getValue().origin(), nearest));
      }
    }
    return hints;
  }

  /** The first of those that are nearest; null if none is near. Every rank asks, so it is quick. */
  private static String nearest(String name, List<String> known) {
    String best = null;
    int least = NEAR + 1;
    for (String candidate : known) {
      if (Math.abs(name.length() - candidate.length()) < least) {
        int distance = distance(name, candidate);
        if (distance < least && !hasAnotherWord(name, candidate)) {
          best = candidate;
          least = distance;
        }
      }
    }
    return best;
  }

  /** True if most letters of a word differ: NCCL_RAS_ENABLE is no misspelt NCCL_PAT_ENABLE. */
  private static boolean hasAnotherWord(String name, String candidate) {
    String[] words = name.split("_");
    String[] others = candidate.split("_");
    for (int w = 0; words.length == others.length && w < words.length; w++) {
      if (2 * distance(words[w], others[w]) > Math.max(words[w].length(), others[w].length())) {
        return true;
      }
    }
    return false;
  }

  /** Levenshtein's: insertions, deletions and replacements of one character. */
  static int distance(String a, String b) {
    int[] row = new int[b.length() + 1];
    for (int j = 0; j <= b.length(); j++) {
      row[j] = j;
    }
    for (int i = 1; i <= a.length(); i++) {
      int diagonal = row[0];
      row[0] = i;
      for (int j = 1; j <= b.length(); j++) {
        int replaced = diagonal + (a.charAt(i - 1) == b.charAt(j - 1) ? 0 : 1);
        diagonal = row[j];
        row[j] = Math.min(replaced, Math.min(row[j], row[j - 1]) + 1);
      }
    }
    return row[b.length()];
  }
}
