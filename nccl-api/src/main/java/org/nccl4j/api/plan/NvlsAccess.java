package org.nccl4j.api.plan;

import java.util.Optional;
import org.nccl4j.api.plan.cost.SwitchSpeed;
import org.nccl4j.device.kernel.Nvls;

/**
 * A rank's NVLS as its planners use it. Its memory may be made at the first operation that takes
 * NVLS. Any thread.
 */
public interface NvlsAccess {
  /** No NVLS. */
  NvlsAccess NONE = of(null);

  /**
   * Returns the rank's place, with or without memory; null where there is no NVLS, and once its
   * making has failed.
   */
  Nvls place();

  /**
   * Returns the place with its memory. If it is not made yet, makes it together with all other
   * ranks, whose threads need not call anything for that, and waits until that is done.
   *
   * @return empty if it cannot be made; the same on all ranks
   * @throws org.nccl4j.device.NcclException if the ranks do not come to an end by the deadline, or
   *     the communicator has failed
   */
  Optional<Nvls> make();

  /** Returns the measured speed of the switch; empty where there is none. */
  default Optional<SwitchSpeed> speed() {
    return Optional.empty();
  }

  /** Returns what is made already; null for no NVLS. */
  static NvlsAccess of(Nvls made) {
    return new NvlsAccess() {
      @Override
      public Nvls place() {
        return made;
      }

      @Override
      public Optional<Nvls> make() {
        return Optional.ofNullable(made);
      }
    };
  }
}
