package org.nccl4j.transport.net.ib;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.support.CloseAll;

/** Resources that a network has opened and closes at the latest when it is closed. */
final class OpenConnections {
  /** Something that is opened. */
  interface Part {
    boolean isClosed();

    void close();
  }

  private final List<Part> parts = new ArrayList<>();

  synchronized <P extends Part> P add(P part) {
    parts.removeIf(Part::isClosed);
    parts.add(part);
    return part;
  }

  synchronized void close() {
    CloseAll all = new CloseAll();
    parts.forEach(part -> all.take(part::close));
    parts.clear();
    all.end();
  }
}
