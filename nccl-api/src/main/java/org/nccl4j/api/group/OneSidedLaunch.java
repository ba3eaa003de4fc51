package org.nccl4j.api.group;

import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;

/** A put, a signal or a wait that the end of its group launches. */
interface OneSidedLaunch {
  /** The stream that it goes into. */
  DeviceStream stream();

  /** The operation and the rank, for messages. */
  String name();

  /**
   * Looks at what may have changed since the call.
   *
   * @throws NcclException if it cannot be launched
   */
  void check();

  /** Launches it. */
  void launch();

  /** Ends the leases of its source and its stream. */
  void end();
}
