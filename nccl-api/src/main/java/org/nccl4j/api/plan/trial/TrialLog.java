package org.nccl4j.api.plan.trial;

import java.io.IOException;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.settings.InfoLog;

/**
 * Writes a rank's file of trials, a few lines at a time. A folder that cannot be written is one
 * warning of the process, and nothing is written from then on: the trials go on, since the other
 * ranks' do. Owner: the thread that launches.
 */
final class TrialLog {
  /** Lines that are written at once. */
  private static final int LINES = 32;

  private final String folder;
  private final String name;
  private final InfoLog info;
  private final List<String> lines;

  /** Null before the first line, and after a failure. */
  private Path file;

  private boolean failed;

  TrialLog(String folder, String name, List<String> header, InfoLog info) {
    this.folder = folder;
    this.name = name;
    this.info = info;
    this.lines = new ArrayList<>(header);
  }

  void add(String line) {
    if (!failed) {
      lines.add(line);
    }
    if (lines.size() >= LINES) {
      write();
    }
  }

  /** Writes what has been added. */
  void write() {
    if (failed || lines.isEmpty()) {
      return;
    }
    try {
      if (file == null) {
        Path made = Path.of(folder, name);
        TrialFile.create(made, lines);
        file = made;
        info.tell("TUNING", () -> "keeps the times of trials in " + made);
      } else {
        TrialFile.append(file, lines);
      }
    } catch (IOException | InvalidPathException e) {
      failed = true;
      TrialFolder.refused(folder, info.who(), "writes no times of trials", e);
    }
    lines.clear();
  }
}
