/**
 * The network of TCP sockets. Layer: network; depends on the SPI and api.wire.
 *
 * <p>{@code Nics} selects the network interfaces, each a device; those as fast as a connection's
 * device are its rails, and its lanes are spread over them. {@code SocketPort} is the one listening
 * socket of a communicator's network, open while connections are awaited; it hands a connection to
 * the {@code SocketListener} that its handshake asks for ({@code SocketRequest}). {@code
 * SocketDialer} connects to the first of a handle's addresses that can be reached, and says why the
 * others cannot. The two directions between two ranks share one socket, a {@code SocketPair}, which
 * the lower rank dials, where neither has lanes. Else a connection is one socket with headers, and,
 * where {@code DataSocketCount} says so, further ones (a {@code DataSocket} each) that large
 * messages are spread over, served by a {@code DataSocketThread} of the connection's own or of the
 * {@code SharedSocketThreads}.
 *
 * <p>A {@code SocketLink} has the sockets of a connection or pair. Its {@code SendLog} keeps what
 * the receiver has not acknowledged; its {@code Resumption} puts another socket in the place of a
 * broken one, driven by the communicator's {@code SocketWatch}. A socket that takes over begins
 * with what each end has received (the class specifies it), after a handshake that says so.
 *
 * <p>All of that goes over {@code DataChannel}s: the sockets themselves, or by TLS where
 * certificates are set ({@code Protection}).
 *
 * <p>Wire format: the handshake of {@code api.wire}, then for each message a header of size (4),
 * tag (4), note (4) and check (4), big-endian, followed by the message's bytes; where the
 * connection has lanes and the message is longer than 32 KiB, these go over the lanes instead, cut
 * into equal parts of at least 64 KiB, each to the next lane in turn. A size of -1 says that the
 * sender has closed. A size of -2 acknowledges all messages of the other direction before the
 * number whose low half is the tag and whose high half is the note; where the socket is not a
 * pair's, nothing else comes back. With NCCL4J_NET_CHECKSUM=crc32c a header ends with a {@code
 * MessageSum} (4), which the receiver computes again once all of the message's bytes have come.
 */
package org.nccl4j.transport.net.socket;
