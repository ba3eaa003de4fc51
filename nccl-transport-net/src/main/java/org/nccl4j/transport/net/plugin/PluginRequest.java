package org.nccl4j.transport.net.plugin;

import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.device.HotPath;

/** A message or a flush under way through a plug-in. */
final class PluginRequest implements NetRequest {
  private final PluginConnection connection;
  private long handle;
  private int messages;

  PluginRequest(PluginConnection connection) {
    this.connection = connection;
  }

  @HotPath
  void begin(long request, int n) {
    handle = request;
    messages = n;
  }

  @Override
  @HotPath
  public boolean test(int[] sizes) {
    return connection.test(this, handle, messages, sizes);
  }
}
