package org.nccl4j.transport.net.ib.control;

import java.nio.ByteBuffer;
import org.nccl4j.transport.net.ib.verbs.Gid;

/**
 * A port of the other end.
 *
 * @param name for people
 * @param lid its address on an InfiniBand subnet
 * @param mtu as libibverbs counts
 * @param ethernet whether it is RoCE, not InfiniBand
 * @param gid its address
 * @param megabits its speed in Mbit/s
 * @param remoteKey the key of its device for the end's memory
 */
public record RemotePort(
    String name, int lid, int mtu, boolean ethernet, byte[] gid, int megabits, int remoteKey) {
  static final int BYTES = 28;

  /** Returns the upper half of the GID. */
  public long subnetPrefix() {
    return ByteBuffer.wrap(gid).getLong();
  }

  void encode(ByteBuffer out) {
    out.putShort((short) lid).put((byte) mtu).put((byte) (ethernet ? 1 : 0));
    out.put(gid).putInt(megabits).putInt(remoteKey);
  }

  static RemotePort decode(ByteBuffer in, String name) {
    int lid = in.getShort() & 0xffff;
    int mtu = in.get();
    boolean ethernet = in.get() == 1;
    byte[] gid = new byte[Gid.BYTES];
    in.get(gid);
    return new RemotePort(name, lid, mtu, ethernet, gid, in.getInt(), in.getInt());
  }

  @Override
  public boolean equals(Object other) {
    return this == other;
  }

  @Override
  public int hashCode() {
    return System.identityHashCode(this);
  }

  /** Returns the port for people. */
  @Override
  public String toString() {
    return "%s, GID %s".formatted(name, Gid.text(gid));
  }
}
