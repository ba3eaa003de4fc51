package org.nccl4j.transport.nvls;

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.api.wire.FdExchange;
import org.nccl4j.device.kernel.MulticastObject;
import org.nccl4j.device.support.Patience;

/**
 * Brings file descriptors from those members of a multicast object that have one to those that want
 * it, through mailboxes that exist while it lasts. Ranks of one process use them too: there is one
 * way, and each member's reference is its own. All members share a host.
 */
final class DescriptorExchange {
  private final TransportContext context;
  private final CollectiveSteps agreement;

  /** Ranks of the members. */
  private final List<Integer> members;

  /** Number of this rank among the members. */
  private final int member;

  DescriptorExchange(TransportContext context, List<Integer> members, CollectiveSteps agreement) {
    this.context = context;
    this.agreement = agreement;
    this.members = members;
    this.member = members.indexOf(context.rank());
  }

  /** Gives and takes all that the members want. */
  void meet(MulticastObject object) throws CollectiveSteps.Refused {
    FdExchange[] mailbox = new FdExchange[1];
    try {
      List<String> letters =
          agreement.take(
              "open a mailbox",
              () -> {
                mailbox[0] = FdExchange.open(context.secret());
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

  /** Gives up in half of the time that is left: the other half is for all to hear of it. */
  private void exchange(MulticastObject object, FdExchange mailbox, List<String> letters)
      throws CollectiveSteps.Refused {
    int n = members.size();
    Map<Integer, String> takers = new HashMap<>();
    Set<Integer> givers = new HashSet<>();
    for (int other = 0; other < n; other++) {
      String letter = letters.get(members.get(other));
      if (letter.charAt(member) == 'y') {
        takers.put(other, letter.substring(n));
      }
      if (object.wants(other)) {
        givers.add(other);
      }
    }
    long patience = agreement.leftNanos() / 2;
    int own = takers.isEmpty() ? -1 : object.descriptor();
    FdExchange.Missing missing =
        mailbox.swap(member, own, takers, givers, System.nanoTime() + patience);
    if (!missing.isEmpty()) {
      throw new CollectiveSteps.Refused(
          "after %s nothing came from ranks %s and ranks %s take nothing"
              .formatted(
                  Patience.text(Duration.ofNanos(patience)),
                  ranks(missing.givers()),
                  ranks(missing.takers())));
    }
    givers.forEach(giver -> object.accept(giver, mailbox.take(giver).orElseThrow().fd()));
  }

  private List<Integer> ranks(Collection<Integer> some) {
    return some.stream().map(members::get).toList();
  }
}
