package org.nccl4j.it.arch.broken.device;

import org.nccl4j.it.arch.broken.api.MentionsHidden;

/** Goes against the modules' order. */
public class CallsApi {
  public MentionsHidden api;
}
