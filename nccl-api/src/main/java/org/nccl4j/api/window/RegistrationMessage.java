package org.nccl4j.api.window;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.support.ReceivedError;

/**
 * A rank's message to all others in a step of registering or dropping a window.
 *
 * @param step which; all ranks must be in the same
 * @param error of this rank, or null
 * @param window a window's number, if it has one; for a device communicator its requirements
 * @param allocation the number of the allocation in its process
 * @param allocationBytes its size
 * @param offset where the window begins in it
 * @param bytes the window's size
 * @param stride of the rank's flat range
 * @param mailbox where the rank receives file descriptors, or a fabric handle; see {@link
 *     HandleOffer}; else ""
 * @param forCollectives whether the rank lets collectives use the window
 * @param places where the buffers of an operation begin in memory that ranks registered without
 *     each other; empty for windows
 * @param multicast whether the rank knows that all ranks have made NVLS, which reaches windows by
 *     multicast; once true it stays so
 * @param givenUp numbers of windows that the rank has released
 * @param sent number of messages of puts and signals to each rank; empty if there are none
 */
record RegistrationMessage(
    Step step,
    NcclException error,
    long window,
    long allocation,
    long allocationBytes,
    long offset,
    long bytes,
    long stride,
    String mailbox,
    boolean forCollectives,
    List<Long> places,
    boolean multicast,
    List<Long> givenUp,
    List<Long> sent) {
  /** The steps. */
  enum Step {
    /** The first of what needs it makes the library's own window. */
    SPACE("registerWindow, createDeviceCommunicator, createExpertExchange or createRaggedExchange"),
    REGISTER("registerWindow"),
    DEVICE_COMMUNICATOR("createDeviceCommunicator"),
    MAPPED("registerWindow (mapping)"),
    DEREGISTER("deregisterWindowOnAllRanks");

    private final String label;

    Step(String label) {
      this.label = label;
    }

    String label() {
      return label;
    }
  }

  /** A step whose message has only its outcome. */
  static RegistrationMessage outcome(Step step, long window, NcclException error) {
    return new RegistrationMessage(
        step, error, window, 0, 0, 0, 0, 0, "", false, List.of(), false, List.of(), List.of());
  }

  /** The same with what the rank has sent. */
  RegistrationMessage with(List<Long> messages) {
    return new RegistrationMessage(
        step,
        error,
        window,
        allocation,
        allocationBytes,
        offset,
        bytes,
        stride,
        mailbox,
        forCollectives,
        places,
        multicast,
        givenUp,
        messages);
  }

  /**
   * True if the window of a registration is reached by multicast: if all ranks have made NVLS. A
   * rank alone may know that before another one does.
   */
  static boolean allHaveMulticast(List<RegistrationMessage> all) {
    return all.stream().allMatch(RegistrationMessage::multicast);
  }

  byte[] toBytes() {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (DataOutputStream out = new DataOutputStream(bytes)) {
      out.writeByte(step.ordinal());
      out.writeByte(error == null ? -1 : error.id().ordinal());
      if (error != null) {
        out.writeUTF(error.problem());
        out.writeUTF(error.remedy());
      }
      for (long value : new long[] {window, allocation, allocationBytes, offset, bytes(), stride}) {
        out.writeLong(value);
      }
      out.writeUTF(mailbox);
      out.writeBoolean(forCollectives);
      write(out, places);
      out.writeBoolean(multicast);
      write(out, givenUp);
      write(out, sent);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return bytes.toByteArray();
  }

  private static void write(DataOutputStream out, List<Long> numbers) throws IOException {
    out.writeInt(numbers.size());
    for (long number : numbers) {
      out.writeLong(number);
    }
  }

  private static List<Long> numbers(DataInputStream in) throws IOException {
    List<Long> numbers = new ArrayList<>();
    for (int left = in.readInt(); left > 0; left--) {
      numbers.add(in.readLong());
    }
    return List.copyOf(numbers);
  }

  static RegistrationMessage fromBytes(int rank, byte[] bytes) {
    try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
      Step step = Step.values()[in.readByte()];
      int id = in.readByte();
      NcclException error =
          id < 0 ? null : ReceivedError.of(ErrorId.values()[id], in.readUTF(), in.readUTF());
      return new RegistrationMessage(
          step,
          error,
          in.readLong(),
          in.readLong(),
          in.readLong(),
          in.readLong(),
          in.readLong(),
          in.readLong(),
          in.readUTF(),
          in.readBoolean(),
          numbers(in),
          in.readBoolean(),
          numbers(in),
          numbers(in));
    } catch (IOException | ArrayIndexOutOfBoundsException e) {
      throw new InvalidUsageException(
          ErrorId.RANKS_DIFFER,
          "rank %d sent a registration of a window that this rank cannot read (%s)"
              .formatted(rank, e),
          "make the same calls in the same order, with the same version of nccl4j, on all ranks",
          e);
    }
  }
}
