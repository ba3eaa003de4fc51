package org.nccl4j.transport.nvls;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalDouble;
import org.nccl4j.api.multicast.Multicast;
import org.nccl4j.api.multicast.MulticastProvider.Exchange;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.kernel.MulticastObject;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.device.symmetric.MulticastMemory;
import org.nccl4j.device.symmetric.ShareableMemory;

/**
 * A communicator's multicast objects: that of its own buffers, and one for each allocation of the
 * users' that windows lie in. The emulation needs none for these, since every member sees all.
 */
final class NvlsMulticast implements Multicast {
  private final NvlsGroup group;
  private final Nvls nvls;
  private final String reason;
  private final MulticastObject object;

  /** Guarded by itself. */
  private final List<Bound> covers = new ArrayList<>();

  /**
   * Creates the multicast of a group.
   *
   * @param nvls null, as the object, where it could not be made
   */
  NvlsMulticast(NvlsGroup group, Nvls nvls, String reason, MulticastObject object) {
    this.group = group;
    this.nvls = nvls;
    this.reason = reason;
    this.object = object;
  }

  @Override
  public Optional<Nvls> nvls() {
    return Optional.ofNullable(nvls);
  }

  @Override
  public String reason() {
    return reason;
  }

  @Override
  public Speed time(Exchange exchange) {
    try {
      SwitchTiming timing = group.timing(object, nvls.layout());
      return new Speed(OptionalDouble.of(timing.run(new CollectiveSteps(exchange))), "measured");
    } catch (CollectiveSteps.Refused e) {
      return new Speed(OptionalDouble.empty(), e.getMessage());
    }
  }

  @Override
  public Cover cover(ShareableMemory own, List<DeviceMemory> views, Exchange exchange) {
    if (group.isEmulated()) {
      return new Seen(new MulticastMemory(/* emulated= */ true, views));
    }
    long least = views.stream().mapToLong(DeviceMemory::size).min().orElseThrow();
    try {
      Bound bound = new Bound(group.coverOf(own, least, exchange));
      synchronized (covers) {
        covers.add(bound);
      }
      return bound;
    } catch (CollectiveSteps.Refused e) {
      return new None(e.getMessage());
    }
  }

  @Override
  public void close() {
    List<Runnable> left = new ArrayList<>();
    synchronized (covers) {
      covers.forEach(cover -> left.add(cover::close));
    }
    if (object != null) {
      left.add(object::close);
    }
    CloseAll.each(left, Runnable::run);
  }

  /** Memory that could not be covered. */
  private record None(String reason) implements Cover {
    @Override
    public Optional<MulticastMemory> memory() {
      return Optional.empty();
    }

    @Override
    public void close() {}
  }

  /** Memory that every member sees already. */
  private record Seen(MulticastMemory all) implements Cover {
    @Override
    public Optional<MulticastMemory> memory() {
      return Optional.of(all);
    }

    @Override
    public String reason() {
      return "emulated";
    }

    @Override
    public void close() {}
  }

  /** Memory that is bound to an object of the driver. */
  private final class Bound implements Cover {
    private final MulticastObject bound;

    Bound(MulticastObject bound) {
      this.bound = bound;
    }

    @Override
    public Optional<MulticastMemory> memory() {
      return Optional.of(bound.multicast());
    }

    @Override
    public String reason() {
      return "by the switch";
    }

    @Override
    public void close() {
      synchronized (covers) {
        covers.remove(this);
      }
      bound.close();
    }
  }
}
