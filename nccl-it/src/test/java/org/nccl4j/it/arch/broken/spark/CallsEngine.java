package org.nccl4j.it.arch.broken.spark;

import org.nccl4j.it.arch.broken.api.plan.CallsGroup;

/** The tasks of Spark see the public API alone. */
public class CallsEngine {
  public CallsGroup engine;
}
