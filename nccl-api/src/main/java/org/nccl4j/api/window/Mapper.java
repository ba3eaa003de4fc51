package org.nccl4j.api.window;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.shm.OwnedFd;
import org.nccl4j.device.symmetric.FlatRange;
import org.nccl4j.device.symmetric.ShareableMemory;

/** Maps the allocations of a team's ranks into this rank's flat range. */
final class Mapper {
  private final WindowSetup setup;
  private final LsaTeam team;
  private final RegistrationProtocol agreement;

  Mapper(WindowSetup setup, LsaTeam team) {
    this.setup = setup;
    this.team = team;
    this.agreement = new RegistrationProtocol(setup);
  }

  /**
   * Holds an allocation ready.
   *
   * @param allocation null where there is none, for the others' sake
   * @param fabricHandle of it, where the team needs one
   */
  HandleOffer offer(ShareableMemory allocation, byte[] fabricHandle) {
    boolean abroad = team.ranks().stream().anyMatch(rank -> !isHere(rank));
    return new HandleOffer(
        setup.bootstrap().secret(), setup.rank(), allocation, fabricHandle, abroad);
  }

  private boolean isHere(int rank) {
    PeerInfo self = setup.peers().get(setup.rank());
    return setup.peers().get(rank).processId().equals(self.processId());
  }

  /**
   * Maps all ranks' allocations, and returns once all ranks have.
   *
   * @return the views, by place in the team
   * @throws NcclException if a rank could not; then nothing is mapped on any
   */
  List<DeviceMemory> map(
      Supplier<FlatRange> range,
      long offset,
      ShareableMemory own,
      HandleOffer offer,
      List<RegistrationMessage> all) {
    List<DeviceMemory> views = new ArrayList<>();
    NcclException error = null;
    try {
      mapAll(range, offset, own, offer, all, views);
    } catch (NcclException e) {
      error = e;
    } catch (RuntimeException | Error e) { // the other ranks wait for this one's outcome
      error =
          new InternalErrorException(
              "rank %d could not map a window (%s)".formatted(setup.rank(), e),
              "report this with the stack trace",
              e);
    }
    try {
      agreement.reach(RegistrationMessage.outcome(RegistrationMessage.Step.MAPPED, 0, error));
      return List.copyOf(views);
    } catch (RuntimeException e) {
      for (int place = 0; place < views.size(); place++) {
        range.get().unmap(place, offset, views.get(place).size());
      }
      throw e;
    }
  }

  private void mapAll(
      Supplier<FlatRange> reserved,
      long offset,
      ShareableMemory own,
      HandleOffer offer,
      List<RegistrationMessage> all,
      List<DeviceMemory> views) {
    boolean fabric = team.isApart(setup.peers());
    Map<Integer, OwnedFd> foreign = fabric ? Map.of() : foreign(offer, all);
    FlatRange range = reserved.get(); // may fail, so after the others have this rank's memory
    for (int place = 0; place < team.size(); place++) {
      int rank = team.first() + place;
      long bytes = all.get(rank).allocationBytes();
      if (fabric && !isHere(rank)) {
        byte[] handle = HandleOffer.fabricHandle(rank, all.get(rank).mailbox());
        views.add(range.map(place, offset, handle, bytes));
      } else if (foreign.containsKey(rank)) {
        views.add(range.map(place, offset, foreign.get(rank).value(), bytes));
      } else {
        views.add(range.map(place, offset, local(rank, own, offer)));
      }
    }
  }

  private Map<Integer, OwnedFd> foreign(HandleOffer offer, List<RegistrationMessage> all) {
    Map<Integer, String> mailboxes = new HashMap<>();
    for (int rank : team.ranks()) {
      if (!isHere(rank)) {
        mailboxes.put(rank, all.get(rank).mailbox());
      }
    }
    Bootstrap bootstrap = setup.bootstrap();
    return mailboxes.isEmpty()
        ? Map.of()
        : offer.swap(mailboxes, bootstrap.exchangeEnd(), bootstrap::checkFailure);
  }

  private ShareableMemory local(int rank, ShareableMemory own, HandleOffer offer) {
    if (rank == setup.rank()) {
      return own;
    }
    ShareableMemory theirs = offer.of(rank);
    if (theirs == null) {
      throw new RemoteException(
          ErrorId.PEER_MEMORY,
          "rank %d's memory is not found, although that rank is in this process".formatted(rank),
          "load nccl4j once in a process, not by several class loaders");
    }
    return theirs;
  }
}
