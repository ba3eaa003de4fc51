/**
 * Connects the ranks before there are transports: TCP connections that prove knowledge of the
 * unique id's secret, with deadlines and bounded reads. Layer: engine, beside the transport SPI;
 * knows no device.
 *
 * <p>One thread of the process ({@code EventLoop}) waits for all sockets. {@code
 * ConnectionListener} and {@code ConnectionDialer} make {@code Connection}s, which begin with the
 * {@code Handshake} and then carry messages of a {@code FrameType}. {@code RootService} is the
 * root's side; {@code ControlLink} and {@code RingLink} are a rank's, put together by {@code
 * TcpBootstrap}; {@code RankMonitor} is what the rank's threads wait on. {@code LocalBootstrap}
 * does the same inside one process without sockets.
 *
 * <p>Wire format, version 1 (the first): the handshake as {@code Handshake} says, then messages of
 * length (4), type (1) and fields; numbers big-endian, texts and bytes with their length (4) before
 * them. A hello's fields but the last keep their layout in later versions.
 */
package org.nccl4j.api.bootstrap;
