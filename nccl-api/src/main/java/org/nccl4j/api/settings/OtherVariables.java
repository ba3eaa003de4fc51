package org.nccl4j.api.settings;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * NCCL's variables that are not settings here, each with a sentence on this library's behaviour.
 * Read from a file beside this class when first needed.
 */
final class OtherVariables {
  private static final String FILE = "other-variables.txt";

  /** The sentences, read once. */
  private static final class Read {
    static final SortedMap<String, String> ALL = Collections.unmodifiableSortedMap(read());
  }

  private OtherVariables() {}

  /** The sentences, by name. */
  static SortedMap<String, String> all() {
    return Read.ALL;
  }

  private static SortedMap<String, String> read() {
    SortedMap<String, String> all = new TreeMap<>();
    try (InputStream in = OtherVariables.class.getResourceAsStream(FILE);
        BufferedReader reader =
            new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8))) {
      String sentence = "";
      for (String line = reader.readLine(); line != null; line = reader.readLine()) {
        if (line.startsWith(" ")) {
          for (String name : line.trim().split(" ")) {
            all.put("NCCL_" + name, sentence);
          }
        } else if (!line.startsWith("#")) {
          sentence = line;
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return all;
  }
}
