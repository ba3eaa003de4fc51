package org.nccl4j.api.registry;

import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.device.HotPath;

/**
 * The work of the processor for a connection of a transport plug-in. It moves data, so calls are
 * direct, not by reflection.
 */
record GuardedHandler(GuardedPlugin plugin, ProxyHandler handler) implements ProxyHandler {
  @Override
  @HotPath
  public int doWork() {
    try {
      return handler.doWork();
    } catch (RuntimeException | Error e) {
      throw plugin.blamed("doWork", e);
    }
  }

  @Override
  @HotPath
  public boolean isUnderWay() {
    try {
      return handler.isUnderWay();
    } catch (RuntimeException | Error e) {
      throw plugin.blamed("isUnderWay", e);
    }
  }

  @Override
  public void endExposures() {
    try {
      handler.endExposures();
    } catch (RuntimeException | Error e) {
      throw plugin.blamed("endExposures", e);
    }
  }

  @Override
  public void endReceives() {
    try {
      handler.endReceives();
    } catch (RuntimeException | Error e) {
      throw plugin.blamed("endReceives", e);
    }
  }

  @Override
  public void forgetBuffers() {
    try {
      handler.forgetBuffers();
    } catch (RuntimeException | Error e) {
      throw plugin.blamed("forgetBuffers", e);
    }
  }

  @Override
  public boolean isPolled() {
    try {
      return handler.isPolled();
    } catch (RuntimeException | Error e) {
      throw plugin.blamed("isPolled", e);
    }
  }
}
