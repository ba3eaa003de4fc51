/**
 * Connections between the processes of a communicator: TCP connections that start with a proof of
 * the secret, file descriptors passed on a host, and a common teardown. Layer: below settings,
 * bootstrap, init, window and the transports, which use it; knows none of them.
 *
 * <p>{@code Interfaces} applies NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY ({@code
 * InterfaceFilter}); {@code ListeningSocket} opens a port of NCCL4J_BOOTSTRAP_PORTS ({@code
 * PortRange}). Every connection begins with the {@code Handshake}. Networks poll: a {@code Dialer}
 * connects and a {@code Listener} accepts, each by a {@code PendingHandshake}; {@code
 * AddressTrials} decides when each address is tried. The bootstrap runs the same handshake on its
 * event loop. Afterwards a network reads and writes a {@code DataChannel}.
 *
 * <p>{@code FdExchange} gives and takes file descriptors between processes of a host; {@code
 * TeardownBarrier} frees shared memory once the other processes have finished with it.
 */
package org.nccl4j.api.wire;
