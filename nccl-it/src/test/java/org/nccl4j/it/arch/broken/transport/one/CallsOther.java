package org.nccl4j.it.arch.broken.transport.one;

import org.nccl4j.it.arch.broken.api.plan.CallsGroup;
import org.nccl4j.it.arch.broken.transport.two.Other;

/** A transport that knows another and the engine. */
public class CallsOther {
  public Other other;
  public CallsGroup engine;
}
