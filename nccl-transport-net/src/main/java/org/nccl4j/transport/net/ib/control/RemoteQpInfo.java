package org.nccl4j.transport.net.ib.control;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.RemoteException;
import org.nccl4j.transport.net.ib.verbs.Gid;

/**
 * One end of a connection, as it describes itself to the other end.
 *
 * <pre>
 *   0  rank, 4 bytes
 *   4  LID, 2 bytes
 *   6  MTU as libibverbs counts, 1 byte
 *   7  1 byte: bit 0, whether messages are split over the queue pairs; bit 1, whether it is RoCE
 *   8  GID, 16 bytes
 *  24  address of the memory that the other end writes to, 8 bytes
 *  32  its remote key, 4 bytes
 *  36  number of queue pairs, 4 bytes
 *  40  name of the port, 64 bytes of UTF-8, zeros behind it
 * 104  number of its host's ports that the connection may use, 1 byte; 0: it has no fail-over
 * 105  which of them it is, 1 byte
 * 108  numbers of the queue pairs, 4 bytes each, 128 of them
 * </pre>
 *
 * @param rank who it is
 * @param lid its port's
 * @param mtu its port's
 * @param split whether its messages are split
 * @param ethernet whether its port is RoCE, not InfiniBand
 * @param gid its address
 * @param memory where the other end writes: a sender's clear-to-send queue, a receiver's sizes
 * @param remoteKey the key for that
 * @param portName for people
 * @param ports number of ports that can take over from one another there; 0: it has no fail-over
 * @param port the place of this one among them
 * @param queuePairs their numbers
 */
public record RemoteQpInfo(
    int rank,
    int lid,
    int mtu,
    boolean split,
    boolean ethernet,
    byte[] gid,
    long memory,
    int remoteKey,
    String portName,
    int ports,
    int port,
    int[] queuePairs) {
  public static final int BYTES = 108 + Integer.BYTES * IbHandle.MAX_QUEUE_PAIRS;
  private static final int NAME_BYTES = 64;
  private static final int SPLIT = 1;
  private static final int ETHERNET = 2;

  public long subnetPrefix() {
    return ByteBuffer.wrap(gid).getLong();
  }

  public byte[] encode() {
    ByteBuffer out = ByteBuffer.allocate(BYTES);
    int flags = (split ? SPLIT : 0) | (ethernet ? ETHERNET : 0);
    out.putInt(rank).putShort((short) lid).put((byte) mtu).put((byte) flags).put(gid);
    out.putLong(memory).putInt(remoteKey).putInt(queuePairs.length);
    byte[] name = portName.getBytes(StandardCharsets.UTF_8);
    out.put(name, 0, Math.min(name.length, NAME_BYTES));
    out.position(104).put((byte) ports).put((byte) port).position(108);
    for (int number : queuePairs) {
      out.putInt(number);
    }
    return out.array();
  }

  /**
   * Decodes queue pair information.
   *
   * @throws RemoteException if they say nothing sensible
   */
  public static RemoteQpInfo decode(byte[] bytes) {
    ByteBuffer in = ByteBuffer.wrap(bytes);
    int rank = in.getInt();
    int lid = in.getShort() & 0xffff;
    int mtu = in.get();
    int flags = in.get();
    byte[] gid = new byte[Gid.BYTES];
    in.get(gid);
    long memory = in.getLong();
    int remoteKey = in.getInt();
    int count = in.getInt();
    String name = new String(bytes, in.position(), NAME_BYTES, StandardCharsets.UTF_8);
    if (mtu < 1 || mtu > 5 || count < 1 || count > IbHandle.MAX_QUEUE_PAIRS) {
      throw new RemoteException(
          ErrorId.PROTOCOL,
          "rank %d describes an InfiniBand port with MTU code %d and %d queue pairs"
              .formatted(rank, mtu, count),
          "run the same version of nccl4j on all ranks");
    }
    in.position(104);
    int ports = in.get() & 0xff;
    int port = in.get() & 0xff;
    in.position(108);
    int[] queuePairs = new int[count];
    for (int i = 0; i < count; i++) {
      queuePairs[i] = in.getInt();
    }
    int end = name.indexOf(0);
    String portName = end < 0 ? name : name.substring(0, end);
    boolean split = (flags & SPLIT) != 0;
    boolean ethernet = (flags & ETHERNET) != 0;
    return new RemoteQpInfo(
        rank, lid, mtu, split, ethernet, gid, memory, remoteKey, portName, ports, port, queuePairs);
  }

  /** Returns the information for people. */
  public String describe() {
    return "rank %d (%s, GID %s)".formatted(rank, portName, Gid.text(gid));
  }

  @Override
  public boolean equals(Object other) {
    return this == other;
  }

  @Override
  public int hashCode() {
    return System.identityHashCode(this);
  }

  @Override
  public String toString() {
    return describe();
  }
}
