package org.nccl4j.transport.net.socket;

import java.io.Closeable;
import java.io.IOException;
import org.nccl4j.device.DebugLog;

/** Closes what cannot tell anything of interest any more. */
final class Closing {
  private static final System.Logger LOG = DebugLog.of("NET");

  private Closing() {}

  static void close(Closeable each) {
    if (each == null) {
      return;
    }
    try {
      each.close();
    } catch (IOException e) {
      LOG.log(System.Logger.Level.DEBUG, "closing a socket", e);
    }
  }
}
