package org.nccl4j.api.registry;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.device.HotPath;

/**
 * The messages of a guarded connection of a network: as many reused objects as messages were in
 * progress at a time. Owned by the thread that moves the connection's data.
 */
final class GuardedRequests {
  private final GuardedPlugin plugin;
  private final List<Request> free = new ArrayList<>();

  GuardedRequests(GuardedPlugin plugin) {
    this.plugin = plugin;
  }

  /** A guard of a message; null for none. */
  @HotPath
  NetRequest of(NetRequest request) {
    if (request == null) {
      return null;
    }
    Request guarded = free.isEmpty() ? more() : free.remove(free.size() - 1);
    guarded.request = request;
    return guarded;
  }

  private Request more() {
    return new Request();
  }

  private final class Request implements NetRequest {
    private NetRequest request;
    private int note;
    private boolean redirected;

    @Override
    @HotPath
    public boolean test(int[] sizes) {
      boolean done;
      try {
        done = request.test(sizes);
        note = done ? request.note() : 0;
        redirected = done && request.isRedirected();
      } catch (RuntimeException | Error e) {
        throw plugin.blamed("a message's test", e);
      }
      if (done) {
        request = null;
        free.add(this);
      }
      return done;
    }

    @Override
    @HotPath
    public boolean redirect(NetMemory memory, long offset, int bytes) {
      try {
        return request.redirect(memory, offset, bytes);
      } catch (RuntimeException | Error e) {
        throw plugin.blamed("a message's redirect", e);
      }
    }

    @Override
    @HotPath
    public boolean stay() {
      try {
        return request.stay();
      } catch (RuntimeException | Error e) {
        throw plugin.blamed("a message's stay", e);
      }
    }

    @Override
    @HotPath
    public boolean isRedirected() {
      return redirected;
    }

    @Override
    @HotPath
    public int note() {
      return note;
    }
  }
}
