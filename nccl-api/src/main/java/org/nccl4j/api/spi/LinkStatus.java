package org.nccl4j.api.spi;

/**
 * The data that a connector has moved, for reports.
 *
 * @param bytesSent bytes of data that this end has sent, if its transport counts them; data that
 *     kernels send without a proxy are counted by their device
 * @param bytesDelivered bytes of these that the other end has; read after those sent. A link that
 *     moves data slowly is told from one that has none to move by the difference
 * @param bytesReceived bytes of data that this end has received, if its transport counts them
 * @param hasRoom true if this receiving end has room for data that have not come: if they come
 *     slowly, it is not this end that keeps them waiting
 * @param via the network and the device through which this end sends or receives, such as {@code
 *     Socket/eth0}; empty if it uses none. Reports of a job compare the speeds of links that name
 *     the same network
 * @param failovers the broken paths of this end that others have replaced
 */
public record LinkStatus(
    long bytesSent,
    long bytesDelivered,
    long bytesReceived,
    boolean hasRoom,
    String via,
    Failovers failovers) {
  /** Nothing is counted. */
  public static final LinkStatus NONE = new LinkStatus(0, 0, 0, false, "", Failovers.NONE);

  /** The status of an end that sends. */
  public static LinkStatus sent(long bytes, long delivered, String via, Failovers failovers) {
    return new LinkStatus(bytes, delivered, 0, false, via, failovers);
  }

  /** The status of an end that receives. */
  public static LinkStatus received(long bytes, boolean hasRoom, String via) {
    return new LinkStatus(0, 0, bytes, hasRoom, via, Failovers.NONE);
  }

  /** This status of a sending end, and that of the receiving end beside it, as one. */
  public LinkStatus with(LinkStatus receiver) {
    return new LinkStatus(
        bytesSent,
        bytesDelivered,
        receiver.bytesReceived,
        receiver.hasRoom,
        via.isEmpty() ? receiver.via : via,
        failovers);
  }
}
