package org.nccl4j.spark;

import java.util.List;

/**
 * The text that a task passes to all tasks of its stage before the communicator is made.
 *
 * @param id the unique id, from the first task alone
 * @param problem why this task cannot be a rank; empty if it can
 */
record StartMessage(String id, String problem) {
  private static final char END = '\n';

  String toText() {
    return id + END + problem;
  }

  static List<StartMessage> parse(String[] texts) {
    return List.of(texts).stream().map(StartMessage::parse).toList();
  }

  private static StartMessage parse(String text) {
    int end = text.indexOf(END);
    return new StartMessage(text.substring(0, end), text.substring(end + 1));
  }
}
