package org.nccl4j.transport.net.ib.verbs;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * An entry of a port's table of addresses.
 *
 * @param port the port
 * @param index its place in the table, what NCCL_IB_GID_INDEX means
 * @param type what kind of packets it stands for
 * @param address 16 bytes
 */
public record Gid(int port, int index, Type type, byte[] address) {
  public static final int BYTES = 16;

  public enum Type {
    IB("InfiniBand"),
    ROCE_V1("RoCE v1"),
    ROCE_V2("RoCE v2");

    private final String text;

    Type(String text) {
      this.text = text;
    }

    public String text() {
      return text;
    }
  }

  public boolean isSet() {
    for (byte b : address) {
      if (b != 0) {
        return true;
      }
    }
    return false;
  }

  /** True if it is an IPv4 address in an IPv6 one: ::ffff:a.b.c.d. */
  public boolean isIpv4() {
    for (int i = 0; i < 10; i++) {
      if (address[i] != 0) {
        return false;
      }
    }
    return address[10] == -1 && address[11] == -1;
  }

  /** True if it is good on one link alone: fe80::. */
  public boolean isLinkLocal() {
    return (address[0] & 0xff) == 0xfe && (address[1] & 0xc0) == 0x80;
  }

  /** True if it is ::1. */
  public boolean isIpv6Loopback() {
    for (int i = 0; i < BYTES - 1; i++) {
      if (address[i] != 0) {
        return false;
      }
    }
    return address[BYTES - 1] == 1;
  }

  /** The subnet prefix: the first 8 bytes. */
  public long subnetPrefix() {
    return ByteBuffer.wrap(address).getLong();
  }

  /**
   * The LID of the router that leads to an InfiniBand address from other subnets; 0 if it names
   * none.
   */
  public static int flid(byte[] address) {
    return (address[4] & 0xff) << 8 | address[5] & 0xff;
  }

  /** Returns an address as text. */
  public static String text(byte[] address) {
    try {
      return InetAddress.getByAddress(address).getHostAddress();
    } catch (UnknownHostException e) {
      return Arrays.toString(address);
    }
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Gid that
        && port == that.port
        && index == that.index
        && type == that.type
        && Arrays.equals(address, that.address);
  }

  @Override
  public int hashCode() {
    return Arrays.hashCode(address) * 31 + index;
  }

  @Override
  public String toString() {
    return "%d: %s (%s)".formatted(index, text(address), type.text());
  }
}
