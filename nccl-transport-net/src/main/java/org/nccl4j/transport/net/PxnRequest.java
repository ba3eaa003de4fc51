package org.nccl4j.transport.net;

import java.nio.charset.StandardCharsets;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.RemoteException;

/**
 * A rank's request to another rank of its host to send for it: the handle of its connector.
 *
 * @param number of the request, by which what comes is told from the rest
 * @param channels of the connection
 * @param net the network
 * @param device the network's device
 * @param mailbox where the memory's file descriptors go
 */
record PxnRequest(int number, int channels, String net, String device, String mailbox) {
  private static final int FIELDS = 5;

  byte[] toBytes() {
    return String.join(
            "\n", Integer.toString(number), Integer.toString(channels), net, device, mailbox)
        .getBytes(StandardCharsets.UTF_8);
  }

  /**
   * A rank's request.
   *
   * @throws RemoteException if it is no request
   */
  static PxnRequest fromBytes(int rank, byte[] bytes) {
    String[] fields = new String(bytes, StandardCharsets.UTF_8).split("\n", -1);
    try {
      if (fields.length == FIELDS
          && fields[0].matches("[0-9]{1,9}")
          && fields[1].matches("[0-9]{1,2}")) {
        int channels = Integer.parseInt(fields[1]);
        if (channels >= 1 && channels <= NetChannelCount.MOST) {
          return new PxnRequest(
              Integer.parseInt(fields[0]),
              channels,
              fields[2],
              fields[3],
              Path.of(fields[4]).toString());
        }
      }
    } catch (InvalidPathException e) {
      throw notUnderstood(rank, e);
    }
    throw notUnderstood(rank, null);
  }

  private static RemoteException notUnderstood(int rank, Exception cause) {
    return new RemoteException(
        ErrorId.PROTOCOL,
        "rank %d sent a request to forward its data that this rank cannot read".formatted(rank),
        "run the same version of nccl4j on all ranks",
        cause);
  }
}
