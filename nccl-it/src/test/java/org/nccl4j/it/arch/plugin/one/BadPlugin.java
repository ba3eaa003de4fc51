package org.nccl4j.it.arch.plugin.one;

import org.nccl4j.api.settings.Settings;
import org.nccl4j.it.arch.plugin.two.BadPart;
import org.nccl4j.transport.p2p.P2pProvider;

/** Breaks every rule that a plug-in keeps. */
public class BadPlugin {
  public Settings hidden;
  public P2pProvider other;
  public BadPart part;

  /** Prints a setting that it reads itself. */
  public void print() {
    System.out.println(System.getenv("BAD_PLUGIN"));
    throw new RuntimeException("no remedy");
  }
}
