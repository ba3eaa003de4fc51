package org.nccl4j.testkit;

import java.io.IOException;

/**
 * One thing that a transport has to keep.
 *
 * @param name a sentence
 * @param body throws if it does not
 */
public record Check(String name, Body body) {
  /** The steps of a check. */
  @FunctionalInterface
  public interface Body {
    /** Does it. */
    void run() throws IOException;
  }

  /**
   * Tries it.
   *
   * @throws AssertionError if the transport does not keep it
   * @throws IOException if a process for it cannot be started or talked with
   */
  public void run() throws IOException {
    body.run();
  }
}
