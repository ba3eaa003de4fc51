package org.nccl4j.api.window;

import java.util.List;
import org.nccl4j.api.multicast.Multicast;
import org.nccl4j.api.multicast.MulticastProvider.Exchange;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.symmetric.ShareableMemory;

/** Binds the memory of a window, of all ranks, to a multicast object. Any thread. */
public interface WindowMulticast {
  /**
   * True if this rank knows that all ranks can make access, which another rank may not know yet. A
   * registration makes access if all ranks know it; before that {@link WindowRegistry#cover} may.
   */
  boolean isMade();

  /**
   * Makes access to an allocation together with all other ranks, in a registration.
   *
   * @param own this rank's
   * @param views all ranks', mapped here
   */
  Multicast.Cover cover(ShareableMemory own, List<DeviceMemory> views);

  /** The same, in step by an exchange of the caller's. */
  Multicast.Cover cover(ShareableMemory own, List<DeviceMemory> views, Exchange exchange);
}
