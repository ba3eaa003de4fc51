package org.nccl4j.it.arch.broken.transport.two;

import java.util.ServiceLoader;

/** A transport that looks for services itself. */
public class Other {
  public ServiceLoader<Runnable> services = ServiceLoader.load(Runnable.class);
}
