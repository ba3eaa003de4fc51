/**
 * Connections that carry messages, on one thread of the process. Layer: below the bootstrap's root
 * and ranks, above {@code api.wire}.
 *
 * <p>{@code EventLoop} is the thread, which waits for all sockets and never for one peer. {@code
 * ConnectionListener} and {@code ConnectionDialer} make {@code Connection}s, which begin with the
 * handshake and then carry messages of a {@code FrameType}, written by {@code MessageWriter} and
 * read within bounds by {@code MessageReader}.
 */
package org.nccl4j.api.bootstrap.connection;
