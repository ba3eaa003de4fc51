package org.nccl4j.api.spi;

import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import org.nccl4j.device.Device;
import org.nccl4j.device.kernel.MulticastObject;

/**
 * A way for all ranks of a machine to reach all their memories by one access, found by {@link
 * java.util.ServiceLoader}. Stateless; any thread may call any method.
 */
public interface MulticastProvider {
  /** What it is called in logs. */
  String name();

  /**
   * What a rank brings along, told to all others before anything is made.
   *
   * @param form empty if it brings nothing
   * @param wanted whether its settings ask for it, so that a refusal is worth a warning
   * @param reason why, or why not, as a clause
   */
  record Offer(Optional<MulticastObject.Form> form, boolean wanted, String reason) {}

  /** Lets ranks exchange a few bytes; every rank calls it equally often. */
  @FunctionalInterface
  interface Exchange {
    /** Gives every rank everybody's bytes, by rank. */
    List<byte[]> allGather(byte[] mine);
  }

  /**
   * What this rank brings along. Neither allocates nor calls the driver's multicast functions.
   *
   * @param setting as in {@link TransportContext#setting}
   */
  Offer offer(Device device, Function<String, Optional<String>> setting);

  /**
   * Makes the memory of one communicator, whose ranks all offered the form, together with the other
   * ranks. Where a rank cannot, all ranks give up and have freed everything.
   *
   * @throws org.nccl4j.device.NcclException from the exchange
   */
  Multicast open(TransportContext context, MulticastObject.Form form, Exchange exchange);
}
