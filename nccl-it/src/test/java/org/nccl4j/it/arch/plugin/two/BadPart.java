package org.nccl4j.it.arch.plugin.two;

import org.nccl4j.it.arch.plugin.one.BadPlugin;

/** Makes a cycle of packages. */
public class BadPart {
  public BadPlugin whole;
}
