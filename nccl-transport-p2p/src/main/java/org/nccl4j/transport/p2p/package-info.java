/**
 * The transports P2P (ranks of one process, and GPUs that access each other's memory) and SHM
 * (ranks of one host, through shared memory). Layer: a transport; it knows {@code spi}, {@code
 * settings} and {@code wire} of {@code org.nccl4j.api}, and the devices, and no other transport.
 *
 * <p>Both work alike. Each rank has one arena for each communicator, made when its first connector
 * is. The regions that lie with the rank are places in its arena, at offsets that follow from a
 * number, so a handle is little more than two numbers and a connection costs no call to the kernel.
 * An arena is large in addresses but takes pages only where it is touched, and so asks for no huge
 * pages: small steps touch a few pages of a connection's slots.
 *
 * <pre>
 *   0               credit sides, capacity x 8192 bytes
 *   next 4096       data sides, capacity x (data side rounded up to 4096 bytes)
 * </pre>
 *
 * <p>They differ in the {@link org.nccl4j.transport.p2p.ArenaExchange}, which opens another rank's
 * arena: with a number in the process, or with a file descriptor that is passed once to each peer.
 */
package org.nccl4j.transport.p2p;
