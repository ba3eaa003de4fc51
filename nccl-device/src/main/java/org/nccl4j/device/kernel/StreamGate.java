package org.nccl4j.device.kernel;

import org.nccl4j.device.DeviceStream;

/**
 * A gate before a stream's next work. What is launched while the gate is shut runs without gaps
 * once it is opened, so that its time is the device's and not that of the launching thread. Used by
 * one thread.
 */
public interface StreamGate extends AutoCloseable {
  /** A gate that is always open, for devices whose streams cannot wait. */
  StreamGate OPEN =
      new StreamGate() {
        @Override
        public void shut(DeviceStream stream) {}

        @Override
        public void open() {}

        @Override
        public void close() {}
      };

  /** Has what is launched into a stream from now on wait until {@link #open}. */
  void shut(DeviceStream stream);

  /** Opens the gate; calling it again does nothing. */
  void open();

  /** Opens the gate and frees it; the stream must be idle by then. */
  @Override
  void close();
}
