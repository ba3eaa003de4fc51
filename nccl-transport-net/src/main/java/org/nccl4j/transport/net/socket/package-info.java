/**
 * The network of TCP sockets. Layer: network; depends on the SPI, api.wire and {@code
 * org.nccl4j.transport.net.socket.link}, which moves messages over the sockets that this package
 * connects.
 *
 * <p>{@code Nics} selects the network interfaces, each a device. {@code SocketRails} are those that
 * a connection's lanes are spread over. {@code SocketPort} is the one listening socket of a
 * communicator's network, open while connections are awaited; it hands a connection to the {@code
 * SocketListener} that its handshake asks for ({@code SocketRequest}). {@code SocketDialer}
 * connects to the first of a handle's addresses that can be reached, and says why the others
 * cannot. The two directions between two ranks share one socket, a {@code SocketPair}, which the
 * lower rank dials, where neither has lanes. Both ends also make the sockets that take over from
 * broken ones.
 *
 * <p>All data go through {@code DataChannel}s: the sockets themselves, or TLS where certificates
 * are set ({@code Protection}). A connection begins with the handshake of {@code api.wire}.
 */
package org.nccl4j.transport.net.socket;
