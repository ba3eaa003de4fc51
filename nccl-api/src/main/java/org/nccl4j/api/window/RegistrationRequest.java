package org.nccl4j.api.window;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.symmetric.ShareableMemory;
import org.nccl4j.device.symmetric.SymmetricDevice;

/**
 * A rank's part of a registration before the exchange: an allocation that is ready for the others,
 * or an error to report to them.
 */
final class RegistrationRequest implements AutoCloseable {
  private final ShareableMemory own;
  private final NcclException unfit;
  private final HandleOffer offer;

  private RegistrationRequest(ShareableMemory own, NcclException unfit, HandleOffer offer) {
    this.own = own;
    this.unfit = unfit;
    this.offer = offer;
  }

  /**
   * Looks at a memory and holds it ready.
   *
   * @param apart whether the team needs fabric handles
   * @param memory null only where something is wrong already
   * @param wrong what, else null
   */
  static RegistrationRequest of(
      WindowSetup setup, Mapper mapper, boolean apart, DeviceMemory memory, NcclException wrong) {
    ShareableMemory own = null;
    NcclException unfit = wrong;
    if (unfit == null) {
      try {
        own = ((SymmetricDevice) setup.device()).exportable(memory).orElse(null);
        unfit =
            own == null
                ? WindowChecks.notExportable(setup, memory)
                : WindowChecks.inside(setup, memory, own);
        if (unfit == null) {
          byte[] handle = apart ? WindowChecks.fabricHandle(memory, own) : new byte[0];
          return new RegistrationRequest(own, null, mapper.offer(own, handle));
        }
      } catch (NcclException e) {
        unfit = e.within(WindowChecks.where(setup) + e.problem());
      }
    }
    return new RegistrationRequest(own, unfit, mapper.offer(null, new byte[0]));
  }

  /** The allocation; null where there is none. Released by its last user. */
  ShareableMemory own() {
    return own;
  }

  /** Returns the error of this request, or null. */
  NcclException unfit() {
    return unfit;
  }

  HandleOffer offer() {
    return offer;
  }

  /** Holds it ready no more; the allocation stays as it is. */
  @Override
  public void close() {
    offer.close();
  }
}
