package org.nccl4j.api.window;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.bootstrap.CheckedAllGather;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;

/** Exchanges proposals, and ensures that all ranks continue or none does. */
final class RegistrationProtocol {
  private final WindowSetup setup;

  RegistrationProtocol(WindowSetup setup) {
    this.setup = setup;
  }

  /**
   * Everybody's proposals, by rank.
   *
   * @throws NcclException if a rank has an error, or is in another step: the same on all ranks
   */
  List<RegistrationMessage> reach(RegistrationMessage mine) {
    List<byte[]> gathered =
        CheckedAllGather.allGather(
            setup.bootstrap(), setup.name(), mine.step().label(), mine.toBytes());
    List<RegistrationMessage> all = new ArrayList<>();
    for (int rank = 0; rank < gathered.size(); rank++) {
      all.add(RegistrationMessage.fromBytes(rank, gathered.get(rank)));
    }
    for (int rank = 0; rank < all.size(); rank++) {
      NcclException error = all.get(rank).error();
      if (error != null) {
        throw error;
      }
    }
    return all;
  }

  /**
   * Throws unless all register the same number of bytes at the same offset, for buffers at the same
   * places, or ask for the same device communicator.
   */
  void checkAlike(List<RegistrationMessage> all) {
    RegistrationMessage first = all.get(0);
    if (first.step() == RegistrationMessage.Step.DEVICE_COMMUNICATOR) {
      checkAskedAlike(all);
    }
    for (int rank = 1; rank < all.size(); rank++) {
      RegistrationMessage other = all.get(rank);
      if (other.bytes() != first.bytes()) {
        throw new InvalidArgumentException(
            ErrorId.WINDOW,
            "in communicator %s rank 0 registers a window of %d bytes and rank %d one of %d"
                .formatted(setup.name(), first.bytes(), rank, other.bytes()),
            "register windows of the same size on all ranks");
      }
      if (other.offset() != first.offset()) {
        throw new InvalidArgumentException(
            ErrorId.WINDOW,
            ("in communicator %s rank 0 registers a window at byte %d of its allocation and rank %d"
                    + " at byte %d")
                .formatted(setup.name(), first.offset(), rank, other.offset()),
            "register windows at the same offset of their allocations on all ranks");
      }
      if (!other.places().equals(first.places())) {
        throw new InvalidArgumentException(
            ErrorId.WINDOW,
            ("in communicator %s an operation's buffers begin at bytes %s of rank 0's registered"
                    + " memory and at bytes %s of rank %d's")
                .formatted(setup.name(), first.places(), other.places(), rank),
            "pass buffers at the same offset of registered memory on all ranks");
      }
    }
  }

  private void checkAskedAlike(List<RegistrationMessage> all) {
    for (int rank = 1; rank < all.size(); rank++) {
      DeviceCommRequirements first = DeviceCommRequirements.of(all.get(0).window());
      DeviceCommRequirements other = DeviceCommRequirements.of(all.get(rank).window());
      if (!other.equals(first)) {
        throw new InvalidArgumentException(
            ErrorId.COUNT,
            ("in communicator %s rank 0 creates a device communicator with %s and rank %d one with"
                    + " %s")
                .formatted(setup.name(), first, rank, other),
            "ask for the same numbers of barriers, slots and signals on all ranks");
      }
    }
  }

  /** Throws unless all drop the same window. */
  void checkWindow(List<RegistrationMessage> all) {
    for (int rank = 1; rank < all.size(); rank++) {
      if (all.get(rank).window() != all.get(0).window()) {
        throw new InvalidUsageException(
            ErrorId.CALLS_DIFFER,
            "in communicator %s rank 0 deregisters window %d and rank %d window %d"
                .formatted(setup.name(), all.get(0).window(), rank, all.get(rank).window()),
            "deregister windows in the same order on all ranks");
      }
    }
  }

  /** Returns the key under which these allocations are the same as others. */
  SymmetricMemory.Key key(List<RegistrationMessage> all) {
    List<String> numbers = new ArrayList<>();
    for (int rank = 0; rank < all.size(); rank++) {
      numbers.add(setup.peers().get(rank).processId() + "/" + all.get(rank).allocation());
    }
    return new SymmetricMemory.Key(List.copyOf(numbers));
  }
}
