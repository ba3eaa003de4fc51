package org.nccl4j.transport.net.proxy;

import java.util.List;
import java.util.function.Consumer;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.support.CloseAll;

/**
 * The proxies of the channels that a GPU's kernels use of one end of a connection. They go by the
 * words in pinned memory alone, and so serve kernels that a graph launches as well.
 *
 * <p>An operation uses the first channel and those next to it. Most connections are quiet, and each
 * look takes time. So every turn looks at twice as many channels as have had work lately, at least
 * at the first, and every 16th turn at all.
 */
public final class PolledProxies implements ProxyHandler {
  private static final int TURNS_BETWEEN = 16;

  /** Turns after which channels without work are looked at less often. */
  private static final int ATTENTION = 256;

  private final ProxyHandler[] channels;
  private int turns;

  /** Channels that every turn looks at. */
  private int looked = 1;

  /** Turns without work on the second half of these. */
  private int quiet;

  public PolledProxies(List<ProxyHandler> channels) {
    this.channels = channels.toArray(ProxyHandler[]::new);
  }

  @Override
  @HotPath
  public int doWork() {
    int end = ++turns % TURNS_BETWEEN == 0 ? channels.length : looked;
    int done = 0;
    int busy = 0;
    for (int channel = 0; channel < end; channel++) {
      int now = channels[channel].doWork();
      done += now;
      busy = now > 0 ? channel + 1 : busy;
    }
    attend(busy);
    return done;
  }

  /** The first channels, up to a number, have had work. */
  private void attend(int busy) {
    int wanted = Math.min(channels.length, Math.max(1, 2 * busy));
    if (wanted >= looked && busy > 0) {
      looked = wanted;
      quiet = 0;
    } else if (++quiet > ATTENTION) {
      looked = wanted;
      quiet = 0;
    }
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
  public void endExposures() {
    forEach(ProxyHandler::endExposures);
  }

  @Override
  public void endReceives() {
    forEach(ProxyHandler::endReceives);
  }

  @Override
  public void forgetBuffers() {
    forEach(ProxyHandler::forgetBuffers);
  }

  /** Does something with each channel, whatever fails. */
  private void forEach(Consumer<ProxyHandler> what) {
    CloseAll all = new CloseAll();
    for (ProxyHandler channel : channels) {
      all.take(() -> what.accept(channel));
    }
    all.end();
  }

  @Override
  public boolean isPolled() {
    return true;
  }
}
