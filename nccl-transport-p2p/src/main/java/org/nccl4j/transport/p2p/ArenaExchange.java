package org.nccl4j.transport.p2p;

import java.util.OptionalLong;
import org.nccl4j.api.spi.PeerInfo;

/** Makes a rank's own arena, and opens its peers' arenas. One thread. */
interface ArenaExchange extends AutoCloseable {
  /** Returns the address of this rank's own arena, made at the first call. */
  long own();

  /** Makes sure that a part of this rank's arena can be touched. */
  void reserve(long offset, long bytes);

  /** Returns the address of this rank's arena for a peer's handle. */
  String address(PeerInfo peer);

  /**
   * Takes the next step, without waiting.
   *
   * @param address what the peer's handle says
   * @return where the peer's arena is in this process, once both have each other's
   * @throws org.nccl4j.device.NcclException if they cannot
   */
  OptionalLong meet(PeerInfo peer, String address);

  /** Returns what is still missing with a peer, as a clause for an error after a deadline. */
  String missing(PeerInfo peer);

  /** Gives up this rank's arena and the peers' arenas. */
  @Override
  void close();
}
