package org.nccl4j.api.exchange;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;

/**
 * A way of bringing tokens to experts and their outputs back. Its caller has checked the arguments.
 * One thread at a time.
 */
public interface ExpertDelivery extends AutoCloseable {
  /** True if a call is only put into its stream, which may be captured. */
  boolean isCapturable();

  /**
   * Brings tokens to the ranks of their experts.
   *
   * @param whole false for the sending part alone, which receiveDispatch completes
   */
  void dispatch(
      DeviceMemory tokens,
      DeviceMemory experts,
      DeviceMemory weights,
      int count,
      boolean whole,
      DeviceStream stream);

  /** Completes a dispatch of which only the sending part was called. */
  void receiveDispatch(DeviceStream stream);

  /**
   * Brings outputs back and adds those of each token of the last dispatch.
   *
   * @param result null for the sending part alone, which receiveCombine completes
   */
  void combine(DeviceMemory outputs, DeviceMemory result, DeviceStream stream);

  /** Completes a combine of which only the sending part was called. */
  void receiveCombine(DeviceMemory result, DeviceStream stream);

  /** Frees its memory. */
  @Override
  void close();
}
