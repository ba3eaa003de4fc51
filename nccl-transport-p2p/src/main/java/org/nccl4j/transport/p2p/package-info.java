/**
 * The transports P2P (ranks of one process) and SHM (ranks of one machine). Layer: a transport; it
 * knows {@code org.nccl4j.api.spi} and the devices, and no other transport.
 *
 * <p>Both work alike. Each rank has one arena for each communicator, made when its first connector
 * is. The regions that lie with the rank are places in its arena, at offsets that follow from a
 * number, so a handle is little more than two numbers and a connection costs no call to the kernel.
 * An arena is large in addresses but takes pages only where it is touched:
 *
 * <pre>
 *   0               credit sides, capacity x 8192 bytes
 *   next 4096       data sides, capacity x (data side rounded up to 4096 bytes)
 * </pre>
 *
 * <p>What differs is how a rank gets at another's arena, an {@link
 * org.nccl4j.transport.p2p.ArenaExchange}: by a number that is looked up in the process, or by a
 * file descriptor that is passed once to each peer.
 */
package org.nccl4j.transport.p2p;
