package org.nccl4j.api.bootstrap;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.function.Consumer;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.nccl4j.api.bootstrap.connection.Deadline;
import org.nccl4j.api.bootstrap.root.ProcessIdentity;
import org.nccl4j.api.wire.tls.PeerCredentials;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;

/** Creates a bootstrap of some ranks of a TCP bootstrap; the first of them has the root. */
final class SubsetBootstrap {
  /** Time that a rank whose thread is interrupted gives the first member to say where it is. */
  private static final Duration INTERRUPTED = Duration.ofSeconds(2);

  private final JoinRequest old;
  private final ProcessIdentity self;
  private final String key;
  private final RankMonitor leader;

  /**
   * A bootstrap to be created.
   *
   * @param leader whose failure ends its creation and its exchanges
   */
  SubsetBootstrap(JoinRequest old, ProcessIdentity self, String key, RankMonitor leader) {
    this.old = old;
    this.self = self;
    this.key = key;
    this.leader = leader;
  }

  /**
   * Brings them together.
   *
   * @param place this rank's among the members
   * @param lead where the first member's meeting point is
   * @param publish tells this rank's meeting point the way, if it is the first
   */
  Bootstrap meet(int place, int nRanks, byte[] lead, Consumer<byte[]> publish) {
    BootstrapOptions options = old.options().withoutCommId();
    Duration limit = old.deadline();
    Deadline deadline = Deadline.after(limit);
    BootstrapId id;
    if (place == 0) {
      id = BootstrapRoot.create(options, limit, secret());
      publish.accept(id.withSecret(new byte[BootstrapId.SECRET_BYTES]).encode());
    } else {
      id = BootstrapId.decode(way(RejoinAddress.decode(lead), deadline)).withSecret(secret());
    }
    return TcpBootstrap.join(
        new JoinRequest(nRanks, id, place, limit, options), self, deadline, leader);
  }

  /**
   * Asks the first member for the way. A thread that is interrupted asks once more, for a moment:
   * with the way its interruption can be told to the others.
   */
  private byte[] way(RejoinAddress lead, Deadline deadline) {
    PeerCredentials trust = PeerCredentials.of(old.secret(), old.options().tls());
    try {
      return RejoinCall.ask(leader, lead, trust, key, deadline);
    } catch (InvalidUsageException e) {
      if (e.id() != ErrorId.INTERRUPTED) {
        throw e;
      }
      Thread.interrupted();
      try {
        return RejoinCall.ask(leader, lead, trust, key, Deadline.after(INTERRUPTED));
      } catch (NcclException unknown) {
        throw e;
      } finally {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** Derived, so that it never travels. */
  private byte[] secret() {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(old.secret(), "HmacSHA256"));
      byte[] hash = mac.doFinal(("reunion\n" + key).getBytes(StandardCharsets.UTF_8));
      return Arrays.copyOf(hash, BootstrapId.SECRET_BYTES);
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException("every Java platform has HmacSHA256", e);
    }
  }

  /** The key of a call for some ranks. A long one, as of many nested splits, becomes its hash. */
  static String key(String call, List<Integer> members) {
    String whole = call + " " + text(members);
    byte[] bytes = whole.getBytes(StandardCharsets.UTF_8);
    if (bytes.length <= RejoinPoint.MAX_KEY) {
      return whole;
    }
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException("every Java platform has SHA-256", e);
    }
  }

  private static String text(List<Integer> members) {
    return members.size() <= 64
        ? members.toString()
        : members.size() + " ranks " + Integer.toHexString(members.hashCode());
  }
}
