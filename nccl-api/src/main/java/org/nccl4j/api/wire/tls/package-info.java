/**
 * TLS for connections that poll: the PEM files of the settings, and sockets read and written as
 * they are or by TLS. Layer: below settings, the bootstrap and init, beside {@code api.wire}.
 *
 * <p>{@code PeerCredentials} are a secret and, where there are {@code TlsFiles}, certificates; they
 * make a {@code SocketIo} of a socket. {@code NetworkTls} gives networks a channel for their
 * control connections ({@code SocketIoChannel}) and for those with data ({@code TlsDataChannel}).
 */
package org.nccl4j.api.wire.tls;
