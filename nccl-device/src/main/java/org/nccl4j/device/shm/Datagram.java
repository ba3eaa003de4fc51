package org.nccl4j.device.shm;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.bind.Offheap;

/**
 * A message of a Unix datagram socket as the kernel reads and writes it: struct msghdr with the one
 * iovec, address, control buffer and payload that it points to, in one block of native memory.
 * 64-bit Linux.
 */
final class Datagram {
  /** Bytes of struct sockaddr_un. */
  static final int ADDRESS_BYTES = 110;

  /** Most bytes of a payload. */
  static final int MAX_PAYLOAD = 128;

  private static final int IOVEC = 64;
  private static final int ADDRESS = 80;
  private static final int CONTROL = 192;
  private static final int PAYLOAD = 320;
  private static final int MAX_CONTROL = PAYLOAD - CONTROL;
  private static final int BLOCK = PAYLOAD + MAX_PAYLOAD;

  private static final int MSG_CONTROLLEN = 40;
  private static final int MSG_FLAGS = 48;
  private static final int MSG_TRUNC = 0x20;
  private static final int MSG_CTRUNC = 0x8;

  private static final short AF_UNIX = 1;
  private static final int MAX_PATH = 107;
  private static final int SOL_SOCKET = 1;
  private static final int SCM_RIGHTS = 1;
  private static final int SCM_CREDENTIALS = 2;
  private static final int CMSG_HEADER = 16;

  private final Offheap memory = new Offheap(BLOCK);
  private final ByteBuffer block = memory.bytes();

  private Datagram() {
    block.putLong(16, memory.address() + IOVEC);
    block.putLong(24, 1);
    block.putLong(IOVEC, memory.address() + PAYLOAD);
  }

  /** Creates a datagram for binding and connecting, which need only a path. */
  static Datagram at(Path path) {
    Datagram datagram = new Datagram();
    byte[] name = path.toString().getBytes(StandardCharsets.UTF_8);
    if (name.length > MAX_PATH) {
      throw new SystemErrorException(
          ErrorId.UNIX_SOCKET,
          "the path of a Unix socket, %s, has %d bytes where Linux allows %d"
              .formatted(path, name.length, MAX_PATH),
          "set -Djava.io.tmpdir to a shorter directory, the same on all ranks of the machine");
    }
    datagram.block.putShort(ADDRESS, AF_UNIX);
    datagram.block.put(ADDRESS + 2, name, 0, name.length);
    return datagram;
  }

  /** To a socket, with a file descriptor. */
  static Datagram to(Path path, byte[] payload, int fd) {
    Datagram datagram = at(path);
    ByteBuffer block = datagram.block;
    block.putLong(0, datagram.memory.address() + ADDRESS);
    block.putInt(8, ADDRESS_BYTES);
    block.put(PAYLOAD, payload, 0, payload.length);
    block.putLong(IOVEC + 8, payload.length);
    block.putLong(CONTROL, CMSG_HEADER + Integer.BYTES);
    block.putInt(CONTROL + 8, SOL_SOCKET);
    block.putInt(CONTROL + 12, SCM_RIGHTS);
    block.putInt(CONTROL + CMSG_HEADER, fd);
    block.putLong(32, datagram.memory.address() + CONTROL);
    block.putLong(MSG_CONTROLLEN, CMSG_HEADER + Long.BYTES);
    return datagram;
  }

  /** Empty, for receiving one. */
  static Datagram forReceiving() {
    Datagram datagram = new Datagram();
    datagram.block.putLong(IOVEC + 8, MAX_PAYLOAD);
    datagram.block.putLong(32, datagram.memory.address() + CONTROL);
    datagram.block.putLong(MSG_CONTROLLEN, MAX_CONTROL);
    return datagram;
  }

  /** The address of its struct msghdr, valid for as long as this object is reachable. */
  long header() {
    return memory.address();
  }

  /** The address of its struct sockaddr_un, valid for as long as this object is reachable. */
  long address() {
    return memory.address() + ADDRESS;
  }

  byte[] payload(int bytes) {
    byte[] payload = new byte[bytes];
    block.get(PAYLOAD, payload, 0, bytes);
    return payload;
  }

  /** True if the payload was longer than the room for it. */
  boolean payloadCut() {
    return (block.getInt(MSG_FLAGS) & MSG_TRUNC) != 0;
  }

  /** True if file descriptors came that this process could not take. */
  boolean controlCut() {
    return (block.getInt(MSG_FLAGS) & MSG_CTRUNC) != 0;
  }

  /** Returns the control data that the kernel added to a received payload. */
  Control control() {
    Control control = new Control();
    int end = CONTROL + (int) block.getLong(MSG_CONTROLLEN);
    int at = CONTROL;
    while (at + CMSG_HEADER <= end) {
      int length = (int) block.getLong(at);
      if (length < CMSG_HEADER || length > end - at) {
        break;
      }
      if (block.getInt(at + 8) == SOL_SOCKET) {
        read(block.getInt(at + 12), at + CMSG_HEADER, length - CMSG_HEADER, control);
      }
      at += (length + 7) & ~7;
    }
    return control;
  }

  private void read(int type, int at, int bytes, Control control) {
    if (type == SCM_RIGHTS) {
      for (int i = 0; i + Integer.BYTES <= bytes; i += Integer.BYTES) {
        control.fds.add(block.getInt(at + i));
      }
    } else if (type == SCM_CREDENTIALS && bytes >= 3 * Integer.BYTES) {
      control.processId = block.getInt(at);
      control.userId = block.getInt(at + 4) & 0xffffffffL;
    }
  }

  /** File descriptors, now this process's, and who sent them; user -1 if that is not known. */
  static final class Control {
    final List<Integer> fds = new ArrayList<>();
    int processId;
    long userId = -1;
  }
}
