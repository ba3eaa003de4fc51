package org.nccl4j.api.settings;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import org.nccl4j.topo.TopoSettings;

/** Finds names that are set and have no effect: NCCL's, misspelt ones, and unknown ones. */
final class SettingHints {
  /** More edits than this are another word. */
  private static final int NEAR = 2;

  /** Declared for the model of a machine alone. */
  private static final Set<String> OF_MODELS =
      Set.of(
          TopoSettings.NCCL_COLLNET_NODE_THRESHOLD.name(),
          TopoSettings.NCCL_MIN_P2P_NCHANNELS.name(),
          TopoSettings.NCCL_P2P_PER_CHANNEL_NET_BW.name(),
          TopoSettings.NCCL_P2P_MAX_PEERS.name());

  /** Names that others read: launchers, scripts, builds against NCCL, images with NCCL. */
  private static final Set<String> OF_OTHERS =
      Set.of(
          "NCCL4J_FAULTS",
          "NCCL4J_LOCAL_RANK",
          "NCCL4J_NRANKS",
          "NCCL4J_RANK",
          "NCCL4J_UNIQUE_ID",
          "NCCL_DIR",
          "NCCL_HOME",
          "NCCL_INCLUDE_DIR",
          "NCCL_JAVA_OPTIONS",
          "NCCL_LIB_DIR",
          "NCCL_ROOT",
          "NCCL_ROOT_DIR",
          "NCCL_VERSION");

  private static final String OF_NCCL_TESTS = "NCCL_TESTS_";

  private SettingHints() {}

  static List<String> hints(SortedMap<String, Environment.Value> set, List<String> known) {
    List<String> hints = new ArrayList<>();
    for (Map.Entry<String, Environment.Value> entry : set.entrySet()) {
      String name = entry.getKey();
      boolean ofModels = OF_MODELS.contains(name);
      if (ofModels
          || !known.contains(name)
              && !OF_OTHERS.contains(name)
              && !name.startsWith(OF_NCCL_TESTS)) {
        String why = ofModels ? "affects only ./nccl topo" : why(name, known);
        hints.add("%s (%s) %s".formatted(name, entry.getValue().origin(), why));
      }
    }
    return hints;
  }

  /** A clause about a name that is not declared. */
  private static String why(String name, List<String> known) {
    String instead = OtherVariables.all().get(name);
    if (instead != null) {
      return "has no effect in nccl4j: " + instead;
    }
    String nearest = nearest(name, known);
    return nearest == null
        ? "is not a setting of nccl4j or of NCCL 2.30.7"
        : "is not a setting; did you mean %s?".formatted(nearest);
  }

  /** The first of those that are nearest; null if none is near. Every rank asks, so it is quick. */
  static String nearest(String name, List<String> known) {
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
