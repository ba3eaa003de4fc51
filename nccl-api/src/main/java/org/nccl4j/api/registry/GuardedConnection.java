package org.nccl4j.api.registry;

import org.nccl4j.api.spi.Failovers;
import org.nccl4j.api.spi.NetConnection;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;

/**
 * One end of a connection of a network plug-in. It moves data, so calls are direct, not by
 * reflection. Plug-ins in other languages may throw checked exceptions.
 */
abstract class GuardedConnection implements NetConnection {
  final GuardedPlugin plugin;
  final GuardedRequests requests;
  private final NetConnection inner;

  private GuardedConnection(GuardedPlugin plugin, NetConnection inner) {
    this.plugin = plugin;
    this.inner = inner;
    this.requests = new GuardedRequests(plugin);
  }

  @Override
  public final NetMemory register(DeviceMemory memory) {
    try {
      return plugin.answered("register", inner.register(memory));
    } catch (Throwable e) {
      throw plugin.blamed("register", e);
    }
  }

  @Override
  public final NetMemory register(DeviceMemory memory, Object registration) {
    try {
      return plugin.answered("register", inner.register(memory, registration));
    } catch (Throwable e) {
      throw plugin.blamed("register", e);
    }
  }

  @Override
  public final NetMemory registerDmaBuf(DeviceMemory memory, int fd, long offset) {
    try {
      return plugin.answered("registerDmaBuf", inner.registerDmaBuf(memory, fd, offset));
    } catch (Throwable e) {
      throw plugin.blamed("registerDmaBuf", e);
    }
  }

  @Override
  public final boolean registersFreely() {
    try {
      return inner.registersFreely();
    } catch (Throwable e) {
      throw plugin.blamed("registersFreely", e);
    }
  }

  @Override
  public final void close() {
    try {
      inner.close();
    } catch (Throwable e) {
      throw plugin.blamed("close", e);
    }
  }

  @Override
  public final String toString() {
    try {
      return inner.toString();
    } catch (Throwable e) {
      throw plugin.blamed("toString", e);
    }
  }

  /** The sending end. */
  static final class Sender extends GuardedConnection implements NetSender {
    private final NetSender sender;

    Sender(GuardedPlugin plugin, NetSender sender) {
      super(plugin, sender);
      this.sender = sender;
    }

    @Override
    public boolean isConnected() {
      try {
        return sender.isConnected();
      } catch (Throwable e) {
        throw plugin.blamed("isConnected", e);
      }
    }

    @Override
    @HotPath
    public NetRequest isend(NetMemory memory, long offset, int bytes, int tag) {
      try {
        return requests.of(sender.isend(memory, offset, bytes, tag));
      } catch (Throwable e) {
        throw plugin.blamed("isend", e);
      }
    }

    @Override
    @HotPath
    public NetRequest isend(NetMemory memory, long offset, int bytes, int tag, int note) {
      try {
        return requests.of(sender.isend(memory, offset, bytes, tag, note));
      } catch (Throwable e) {
        throw plugin.blamed("isend", e);
      }
    }

    @Override
    @HotPath
    public NetRequest isendPlaced(NetMemory memory, long offset, int bytes, int tag, int note) {
      try {
        return requests.of(sender.isendPlaced(memory, offset, bytes, tag, note));
      } catch (Throwable e) {
        throw plugin.blamed("isendPlaced", e);
      }
    }

    @Override
    public Failovers failovers() {
      try {
        return plugin.answered("failovers", sender.failovers());
      } catch (Throwable e) {
        throw plugin.blamed("failovers", e);
      }
    }
  }

  /** The receiving end. */
  static final class Receiver extends GuardedConnection implements NetReceiver {
    private final NetReceiver receiver;

    Receiver(GuardedPlugin plugin, NetReceiver receiver) {
      super(plugin, receiver);
      this.receiver = receiver;
    }

    @Override
    @HotPath
    public NetRequest irecv(int n, NetMemory[] memories, long[] offsets, int[] bytes, int[] tags) {
      try {
        return requests.of(receiver.irecv(n, memories, offsets, bytes, tags));
      } catch (Throwable e) {
        throw plugin.blamed("irecv", e);
      }
    }

    @Override
    @HotPath
    public boolean owesAnswer() {
      try {
        return receiver.owesAnswer();
      } catch (Throwable e) {
        throw plugin.blamed("owesAnswer", e);
      }
    }

    @Override
    public boolean redirects() {
      try {
        return receiver.redirects();
      } catch (Throwable e) {
        throw plugin.blamed("redirects", e);
      }
    }

    @Override
    public void tellPlaces() {
      try {
        receiver.tellPlaces();
      } catch (Throwable e) {
        throw plugin.blamed("tellPlaces", e);
      }
    }

    @Override
    @HotPath
    public boolean redirectNext(NetMemory memory, long offset, int bytes) {
      try {
        return receiver.redirectNext(memory, offset, bytes);
      } catch (Throwable e) {
        throw plugin.blamed("redirectNext", e);
      }
    }

    @Override
    @HotPath
    public NetRequest iflush(int n, NetMemory[] memories, long[] offsets, int[] bytes) {
      try {
        return requests.of(receiver.iflush(n, memories, offsets, bytes));
      } catch (Throwable e) {
        throw plugin.blamed("iflush", e);
      }
    }
  }
}
