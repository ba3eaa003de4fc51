package org.nccl4j.transport.net.proxy;

import java.util.List;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.device.HotPath;

/**
 * The proxies of the channels that a GPU's kernels use of one end of a connection. They go by the
 * words in pinned memory alone, and so serve kernels that a graph launches as well.
 */
public final class PolledProxies implements ProxyHandler {
  private final ProxyHandler[] channels;

  public PolledProxies(List<ProxyHandler> channels) {
    this.channels = channels.toArray(ProxyHandler[]::new);
  }

  @Override
  @HotPath
  public int doWork() {
    int done = 0;
    for (ProxyHandler channel : channels) {
      done += channel.doWork();
    }
    return done;
  }

  @Override
  @HotPath
  public boolean isUnderWay() {
    for (ProxyHandler channel : channels) {
      if (channel.isUnderWay()) {
        return true;
      }
    }
    return false;
  }

  @Override
  public boolean isPolled() {
    return true;
  }
}
