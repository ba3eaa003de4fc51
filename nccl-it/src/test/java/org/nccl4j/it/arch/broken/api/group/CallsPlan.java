package org.nccl4j.it.arch.broken.api.group;

import org.nccl4j.it.arch.broken.api.plan.CallsGroup;

/** One half of a cycle. */
public class CallsPlan {
  public CallsGroup plan;
}
