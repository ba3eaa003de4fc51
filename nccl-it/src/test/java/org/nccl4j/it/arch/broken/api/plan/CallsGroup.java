package org.nccl4j.it.arch.broken.api.plan;

import org.nccl4j.it.arch.broken.api.group.CallsPlan;

/** Goes against the engine's layers, and closes a cycle. */
public class CallsGroup {
  public CallsPlan group;
}
