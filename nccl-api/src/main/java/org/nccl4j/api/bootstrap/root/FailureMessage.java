package org.nccl4j.api.bootstrap.root;

import java.net.ProtocolException;
import java.nio.ByteBuffer;
import org.nccl4j.api.bootstrap.connection.FrameType;
import org.nccl4j.api.bootstrap.connection.MessageReader;
import org.nccl4j.api.bootstrap.connection.MessageWriter;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.support.ReceivedError;

/**
 * The first failure, as ranks and root send it.
 *
 * @param id its kind
 * @param problem as in the exception
 * @param remedy as in the exception
 * @param origin the failed rank, with host and process; empty if the problem names it, as for
 *     failures that the root finds
 */
public record FailureMessage(ErrorId id, String problem, String remedy, String origin) {
  private static final int MAX_TEXT = 8192;

  /** Returns the message that a rank sends about its own failure. */
  public static FailureMessage of(NcclException cause, String origin) {
    return new FailureMessage(cause.id(), cause.problem(), cause.remedy(), origin);
  }

  public ByteBuffer encode() {
    return new MessageWriter(FrameType.FAILURE)
        .number(id.ordinal())
        .text(problem, MAX_TEXT)
        .text(remedy, MAX_TEXT)
        .text(origin, JoinMessage.MAX_TEXT)
        .done();
  }

  public static FailureMessage decode(MessageReader in) throws ProtocolException {
    int number = in.number();
    ErrorId[] ids = ErrorId.values();
    if (number < 0 || number >= ids.length) {
      throw new ProtocolException("it sent a failure of unknown kind " + number);
    }
    return new FailureMessage(
        ids[number], in.text(MAX_TEXT), in.text(MAX_TEXT), in.text(JoinMessage.MAX_TEXT));
  }

  /**
   * Returns the error that a rank throws for the message: another rank's failure, or what the root
   * found.
   */
  public NcclException toException() {
    NcclException itself = ReceivedError.of(id, problem, remedy);
    return origin.isEmpty()
        ? itself
        : new RemoteException(ErrorId.RANK_FAILED, origin + " failed: " + problem, remedy, itself);
  }
}
