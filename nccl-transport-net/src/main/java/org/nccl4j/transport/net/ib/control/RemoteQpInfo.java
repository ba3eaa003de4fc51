package org.nccl4j.transport.net.ib.control;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.RemoteException;
import org.nccl4j.transport.net.ib.device.NicMerge;

/**
 * One end of a connection, as it describes itself to the other end.
 *
 * <pre>
 *   0  rank, 4 bytes
 *   4  1 byte: whether messages are split over the queue pairs
 *   5  number of ports that its queue pairs are at, 1 byte
 *   6  number of its host's NICs that the connection may use, 1 byte; 0: it has no failover
 *   7  the place of this one among them, 1 byte
 *   8  address of the memory that the other end writes to, 8 bytes
 *  16  number of queue pairs, 4 bytes
 *  20  names of the ports with + between them, 64 bytes of UTF-8, zeros behind it
 *  84  ports, 28 bytes each, 4 of them: LID, 2 bytes; MTU, 1 byte; 1 byte: whether it is RoCE; GID,
 *      16 bytes; Mbit/s, 4 bytes; remote key of the memory, 4 bytes
 * 196  numbers of the queue pairs, 4 bytes each, 128 of them
 * </pre>
 *
 * @param rank who it is
 * @param split whether its messages are split
 * @param memory where the other end writes: a sender's clear-to-send queue, a receiver's sizes
 * @param nics number of NICs that can take over from one another there; 0: it has no failover
 * @param nic the place of this one among them
 * @param ports at least one
 * @param queuePairs their numbers
 */
public record RemoteQpInfo(
    int rank,
    boolean split,
    long memory,
    int nics,
    int nic,
    List<RemotePort> ports,
    int[] queuePairs) {
  private static final int NAMES = 20;
  private static final int NAMES_BYTES = 64;
  private static final int PORTS = NAMES + NAMES_BYTES;
  private static final int QUEUE_PAIRS = PORTS + NicMerge.MOST_PORTS * RemotePort.BYTES;
  public static final int BYTES = QUEUE_PAIRS + Integer.BYTES * IbHandle.MAX_QUEUE_PAIRS;

  public RemoteQpInfo {
    ports = List.copyOf(ports);
  }

  public byte[] encode() {
    ByteBuffer out = ByteBuffer.allocate(BYTES);
    out.putInt(rank).put((byte) (split ? 1 : 0)).put((byte) ports.size());
    out.put((byte) nics).put((byte) nic).putLong(memory).putInt(queuePairs.length);
    byte[] names = portNames().getBytes(StandardCharsets.UTF_8);
    out.put(names, 0, Math.min(names.length, NAMES_BYTES)).position(PORTS);
    ports.forEach(port -> port.encode(out));
    out.position(QUEUE_PAIRS);
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
    boolean split = in.get() == 1;
    int portCount = in.get();
    int nics = in.get() & 0xff;
    int nic = in.get() & 0xff;
    long memory = in.getLong();
    int count = in.getInt();
    boolean sensible =
        portCount >= 1
            && portCount <= NicMerge.MOST_PORTS
            && count >= 1
            && count <= IbHandle.MAX_QUEUE_PAIRS;
    List<RemotePort> ports = new ArrayList<>();
    String[] names =
        new String(bytes, NAMES, NAMES_BYTES, StandardCharsets.UTF_8).split("\0")[0].split("\\+");
    in.position(PORTS);
    for (int i = 0; sensible && i < portCount; i++) {
      RemotePort port = RemotePort.decode(in, i < names.length ? names[i] : "?");
      ports.add(port);
      sensible = port.mtu() >= 1 && port.mtu() <= 5;
    }
    if (!sensible) {
      throw new RemoteException(
          ErrorId.PROTOCOL,
          "rank %d describes %d InfiniBand ports with MTU codes %s and %d queue pairs"
              .formatted(rank, portCount, ports.stream().map(RemotePort::mtu).toList(), count),
          "run the same version of nccl4j on all ranks");
    }
    in.position(QUEUE_PAIRS);
    int[] queuePairs = new int[count];
    for (int i = 0; i < count; i++) {
      queuePairs[i] = in.getInt();
    }
    return new RemoteQpInfo(rank, split, memory, nics, nic, ports, queuePairs);
  }

  /** Returns the names of the ports with + between them. */
  public String portNames() {
    return ports.stream().map(RemotePort::name).collect(Collectors.joining("+"));
  }

  /** Returns the information for people. */
  public String describe() {
    return "rank %d (%s)"
        .formatted(
            rank, ports.stream().map(RemotePort::toString).collect(Collectors.joining(" and ")));
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
