/**
 * Moves messages over the sockets of a connection, and replaces sockets that break. Layer: below
 * {@code org.nccl4j.transport.net.socket}, which connects the sockets; depends on the SPI and
 * api.wire.
 *
 * <p>{@code SocketSender} and {@code SocketReceiver} are a connection's ends. A connection, or the
 * pair of both directions between two ranks, has one socket with headers, and, where {@code
 * DataSocketCount} says so, further ones (lanes, a {@code DataSocket} each) that large messages are
 * spread over, served by a {@code DataSocketThread} of the connection's own or of the {@code
 * SharedSocketThreads}.
 *
 * <p>A {@code SocketLink} has the sockets of a connection or pair. Its {@code SendLog} keeps what
 * the receiver has not acknowledged; its {@code Resumption} puts another socket ({@code
 * SpareSockets}) in the place of a broken one, driven by the communicator's {@code SocketWatch}. A
 * socket that takes over begins with what each end has received ({@code Resumption} specifies it),
 * after a handshake that says so.
 *
 * <p>Wire format after the handshake: for each message a header of size (4), tag (4), note (4) and
 * check (4), big-endian, followed by the message's bytes; where the connection has lanes and the
 * message is longer than 32 KiB, these go over the lanes instead, cut into equal parts of at least
 * 64 KiB, each to the next lane in turn, or where lanes lead to interfaces of different speeds into
 * parts by {@code LaneShares}. A size of -1 says that the sender has closed. A size of -2
 * acknowledges all messages of the other direction before the number whose low half is the tag and
 * whose high half is the note; where the socket is not a pair's, nothing else comes back. With
 * NCCL4J_NET_CHECKSUM=crc32c a header ends with a {@code MessageSum} (4), which the receiver
 * computes again once all of the message's bytes have come.
 */
package org.nccl4j.transport.net.socket.link;
