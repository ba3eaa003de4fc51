package org.nccl4j.api.registry;

import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.device.HotPath;

/**
 * The work of the processor for a connection of a transport plug-in. It moves data, so calls are
 * direct, not by reflection. Plug-ins in other languages may throw checked exceptions.
 */
record GuardedHandler(GuardedPlugin plugin, ProxyHandler handler) implements ProxyHandler {
  @Override
  @HotPath
  public int doWork() {
    try {
      return handler.doWork();
    } catch (Throwable e) {
      throw plugin.blamed("doWork", e);
    }
  }

  @Override
  @HotPath
  public boolean isUnderWay() {
    try {
      return handler.isUnderWay();
    } catch (Throwable e) {
      throw plugin.blamed("isUnderWay", e);
    }
  }

  @Override
  public void endExposures() {
    try {
      handler.endExposures();
    } catch (Throwable e) {
      throw plugin.blamed("endExposures", e);
    }
  }

  @Override
  public void endReceives() {
    try {
      handler.endReceives();
    } catch (Throwable e) {
      throw plugin.blamed("endReceives", e);
    }
  }

  @Override
  public void forgetBuffers() {
    try {
      handler.forgetBuffers();
    } catch (Throwable e) {
      throw plugin.blamed("forgetBuffers", e);
    }
  }

  @Override
  public boolean isPolled() {
    try {
      return handler.isPolled();
    } catch (Throwable e) {
      throw plugin.blamed("isPolled", e);
    }
  }
}
