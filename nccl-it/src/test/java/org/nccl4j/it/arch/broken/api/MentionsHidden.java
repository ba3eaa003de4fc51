package org.nccl4j.it.arch.broken.api;

import org.nccl4j.it.arch.broken.api.plan.CallsGroup;

/** Shows a hidden type, and reads the environment. */
public class MentionsHidden {
  public CallsGroup hidden() {
    System.getenv("HOME");
    return null;
  }
}
