package org.nccl4j.transport.nvls;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.Patience;
import org.nccl4j.device.kernel.MulticastObject;
import org.nccl4j.device.shm.FdMailbox;
import org.nccl4j.device.shm.ReceivedFd;

/**
 * Brings file descriptors from those members of a multicast object that have one to those that want
 * it, through mailboxes that exist while it lasts. Ranks of one process use them too: there is one
 * way, and each member's reference is its own.
 */
final class DescriptorExchange {
  private static final long POLL_NANOS = 50_000;

  private final TransportContext context;
  private final Agreement agreement;

  /** Ranks of the members. */
  private final List<Integer> members;

  /** Which of them this one is. */
  private final int member;

  DescriptorExchange(TransportContext context, List<Integer> members, Agreement agreement) {
    this.context = context;
    this.agreement = agreement;
    this.members = members;
    this.member = members.indexOf(context.rank());
  }

  /** Gives and takes all that the members want. */
  void meet(MulticastObject object) throws Agreement.Refused {
    FdMailbox[] mailbox = new FdMailbox[1];
    try {
      List<String> letters =
          agreement.take(
              "open a mailbox",
              () -> {
                checkReach();
                mailbox[0] = FdMailbox.open(context.secret());
                return wants(object) + mailbox[0].path();
              });
      agreement.take(
          "exchange file descriptors",
          () -> {
            exchange(object, mailbox[0], letters);
            return "";
          });
    } finally {
      if (mailbox[0] != null) {
        mailbox[0].close();
      }
    }
  }

  /** A letter for each member: y where its descriptor is wanted here. */
  private String wants(MulticastObject object) {
    StringBuilder letters = new StringBuilder();
    for (int other = 0; other < members.size(); other++) {
      letters.append(object.wants(other) ? 'y' : 'n');
    }
    return letters.toString();
  }

  private void checkReach() throws Agreement.Refused {
    PeerInfo self = context.peers().get(context.rank());
    for (int rank : members) {
      PeerInfo peer = context.peers().get(rank);
      if (!peer.ipcNamespace().equals(self.ipcNamespace()) || peer.userId() != self.userId()) {
        throw new Agreement.Refused(
            "rank %d runs as another user or in another container".formatted(peer.rank()));
      }
    }
  }

  /** Gives up in half of the time that is left: the other half is for all to hear of it. */
  private void exchange(MulticastObject object, FdMailbox mailbox, List<String> letters)
      throws Agreement.Refused {
    int n = members.size();
    List<Integer> takers = new ArrayList<>();
    Set<Integer> givers = new HashSet<>();
    for (int other = 0; other < n; other++) {
      if (letters.get(members.get(other)).charAt(member) == 'y') {
        takers.add(other);
      }
      if (object.wants(other)) {
        givers.add(other);
      }
    }
    byte[] key = ByteBuffer.allocate(Integer.BYTES).putInt(member).array();
    long begin = System.nanoTime();
    long patience = agreement.leftNanos() / 2;
    while (!takers.isEmpty() || !givers.isEmpty()) {
      takers.removeIf(
          taker ->
              mailbox.post(
                  object.descriptor(), Path.of(letters.get(members.get(taker)).substring(n)), key));
      Optional<ReceivedFd> received = mailbox.poll();
      if (received.isPresent()) {
        int giver = ByteBuffer.wrap(received.get().key()).getInt();
        object.accept(giver, received.get().fd());
        givers.remove(giver);
      } else if (System.nanoTime() - begin > patience) {
        throw new Agreement.Refused(
            "after %s nothing came from ranks %s and ranks %s take nothing"
                .formatted(
                    Patience.text(Duration.ofNanos(patience)), ranks(givers), ranks(takers)));
      } else if (!takers.isEmpty() || !givers.isEmpty()) {
        Patience.sleep(POLL_NANOS);
      }
    }
  }

  private List<Integer> ranks(Collection<Integer> some) {
    return some.stream().map(members::get).toList();
  }
}
