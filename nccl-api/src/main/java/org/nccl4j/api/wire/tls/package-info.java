/**
 * TLS for connections that poll: the PEM files of the settings, and sockets read and written plain
 * or with TLS. Layer: below settings, the bootstrap and init, beside {@code api.wire}.
 *
 * <p>{@code PeerCredentials} are a secret and, with {@code TlsFiles}, certificates; they create a
 * {@code SocketIo} for a socket. {@code NetworkTls} gives networks a channel ({@code
 * TlsDataChannel}) for their control connections and for those with data.
 */
package org.nccl4j.api.wire.tls;
