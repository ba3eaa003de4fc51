/**
 * Connections that carry messages, on one thread of the process. Layer: below the bootstrap's root
 * and ranks, above {@code api.wire}.
 *
 * <p>{@code EventLoop} is the thread, which waits for all sockets and never for one peer. {@code
 * ConnectionListener} and {@code ConnectionDialer} create {@code Connection}s, which begin with the
 * handshake and then carry messages of a {@code FrameType}; {@code MessageWriter} writes and {@code
 * MessageReader} reads them within bounds.
 */
package org.nccl4j.api.bootstrap.connection;
