/**
 * Connects the ranks of a communicator before there are transports: TCP connections that prove
 * knowledge of the unique id's secret, with deadlines and bounded reads. Layer: engine, beside the
 * transport SPI; knows no device. Above {@code root}, {@code connection} and {@code api.wire}; used
 * by the communicator, init, window and observe.
 *
 * <p>{@code Bootstrap} is the entrance, made by {@code TcpBootstrap}; {@code LocalBootstrap} does
 * the same inside one process without sockets. {@code CallOrder} keeps the exchanges of a rank's
 * threads in the order of their calls. A rank has a {@code RootConnection} and a {@code
 * RingConnection}; {@code RankMonitor} is what its threads wait on. {@code FailureBroadcast} and
 * {@code NoticeBroadcast} pass failures and notices to all ranks; {@code SubsetBootstrap} forms a
 * bootstrap of some of the ranks, through their {@code RejoinPoint}s. {@code JobObserver} asks a
 * root for the states of its ranks, without being a rank.
 *
 * <p>Wire format, version 1 (the first): the handshake of {@code api.wire}, then messages of length
 * (4), type (1) and fields; numbers big-endian, texts and bytes with their length (4) before them.
 * A join message's fields but the last keep their layout in later versions.
 */
package org.nccl4j.api.bootstrap;
