package org.nccl4j.transport.net.ib;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.bind.Offheap;

/**
 * The queue in which a receiver tells a sender where messages may go. It lies in the sender's
 * memory; the receiver has an image of it and writes from that, by RDMA, one slot for each group of
 * receives. In native byte order, which is little-endian on every machine that this runs on.
 *
 * <pre>
 *   slot s, 512 bytes at 512 s:  8 entries of 64 bytes, as many used as the group has messages
 *   entry:   0  address of the receiver's memory, 8 bytes
 *            8  remote key of it for each port, 4 bytes each, at most 4
 *           24  most bytes, 4 bytes
 *           28  tag, 4 bytes
 *           32  messages in the group, 4 bytes
 *           36  1 if a second entry follows where the sender waits for it, else 0; 4 bytes
 *           56  sequence, 8 bytes: number of the group, from 1
 * </pre>
 *
 * Group g is in slot (g - 1) mod 64. An entry is a cache line and its sequence is written last, so
 * an entry with the awaited sequence is whole. A slot is used again when its group has been
 * received, so the sender has no more need of it.
 *
 * <p>A message that is alone in its group may have a second entry, of other memory. It may arrive
 * later than the first, or too late. The sender uses it if the message has exactly its bytes, which
 * no message has if they are {@link #NOWHERE}.
 *
 * <p>Behind the receiver's image are the sizes that senders write back: for each slot 8 sizes of 4
 * bytes. Of a message that is alone in its group the second is the note, and the third is 1 if the
 * message is in the other memory.
 */
final class ClearToSend {
  static final int SLOTS = 64;
  static final int MAX_RECEIVES = 8;

  /** The entry of the other memory of a message that is alone in its group. */
  static final int OTHER = 1;

  /** In place of the bytes of other memory: the message goes to the first. */
  static final int NOWHERE = -1;

  static final int ENTRY_BYTES = 64;
  static final int SLOT_BYTES = MAX_RECEIVES * ENTRY_BYTES;
  static final int QUEUE_BYTES = SLOTS * SLOT_BYTES;
  static final int SIZES_SLOT_BYTES = MAX_RECEIVES * Integer.BYTES;
  static final int BYTES = QUEUE_BYTES + SLOTS * SIZES_SLOT_BYTES;

  private static final int ADDRESS = 0;
  private static final int KEY = 8;
  private static final int CAPACITY = 24;
  private static final int TAG = 28;
  private static final int COUNT = 32;
  private static final int FOLLOWED = 36;
  private static final int SEQUENCE = 56;

  private final Offheap block = Offheap.onPage(BYTES);

  long address() {
    return block.address();
  }

  /** Returns a slot's offset from the queue's begin. */
  static int slotOffset(int slot) {
    return slot * SLOT_BYTES;
  }

  /** Returns the last group in a slot before a group; 0 or less if there was none. */
  static long latest(int slot, long before) {
    return before - 1 - Math.floorMod(before - 2 - slot, (long) SLOTS);
  }

  /** Returns the offset of a slot's sizes from the queue's begin. */
  static int sizesOffset(int slot) {
    return QUEUE_BYTES + slot * SIZES_SLOT_BYTES;
  }

  private static int entry(int slot, int i) {
    return slot * SLOT_BYTES + i * ENTRY_BYTES;
  }

  /** Fills an entry of the image, but for its keys. */
  @HotPath
  void put(int slot, int i, int count, long sequence, long address, int bytes, int tag) {
    int at = entry(slot, i);
    block
        .putLong(at + ADDRESS, address)
        .putInt(at + CAPACITY, bytes)
        .putInt(at + TAG, tag)
        .putInt(at + COUNT, count)
        .putLong(at + SEQUENCE, sequence);
  }

  /**
   * True if an entry has arrived; its fields may be read then. The sequence number is the last word
   * of an entry, which lies in one cache line: cards write the words of a line in ascending order,
   * which the InfiniBand specification does not promise.
   */
  @HotPath
  boolean arrivedAcquire(int slot, int i, long sequence) {
    return block.getLongAcquire(entry(slot, i) + SEQUENCE) == sequence;
  }

  /** Has no entry count as arrived. */
  void forget() {
    for (int slot = 0; slot < SLOTS; slot++) {
      for (int i = 0; i < MAX_RECEIVES; i++) {
        block.putLong(entry(slot, i) + SEQUENCE, 0);
      }
    }
  }

  /** Puts the key that an entry of the image has for a port. */
  @HotPath
  void putKey(int slot, int i, int port, int key) {
    block.putInt(entry(slot, i) + KEY + port * Integer.BYTES, key);
  }

  long remoteAddress(int slot, int i) {
    return block.getLong(entry(slot, i) + ADDRESS);
  }

  int remoteKey(int slot, int i, int port) {
    return block.getInt(entry(slot, i) + KEY + port * Integer.BYTES);
  }

  int capacity(int slot, int i) {
    return block.getInt(entry(slot, i) + CAPACITY);
  }

  int tag(int slot, int i) {
    return block.getInt(entry(slot, i) + TAG);
  }

  int count(int slot) {
    return block.getInt(entry(slot, 0) + COUNT);
  }

  /** Tells in the image that an entry of other memory follows where the sender waits for it. */
  void putFollowed() {
    for (int slot = 0; slot < SLOTS; slot++) {
      block.putInt(entry(slot, 0) + FOLLOWED, 1);
    }
  }

  /** True if an entry of other memory follows where the sender waits for it. */
  boolean isFollowed(int slot) {
    return block.getInt(entry(slot, 0) + FOLLOWED) != 0;
  }

  void putNote(int slot, int note) {
    putSize(slot, 1, note);
  }

  /** Returns the note of a message that is alone in its group. */
  int note(int slot) {
    return size(slot, 1);
  }

  void putMoved(int slot, boolean moved) {
    putSize(slot, 2, moved ? 1 : 0);
  }

  /** True if a message that is alone in its group is in its other memory. */
  boolean isMoved(int slot) {
    return size(slot, 2) != 0;
  }

  void putSize(int slot, int i, int bytes) {
    block.putInt(sizesOffset(slot) + i * Integer.BYTES, bytes);
  }

  int size(int slot, int i) {
    return block.getInt(sizesOffset(slot) + i * Integer.BYTES);
  }
}
