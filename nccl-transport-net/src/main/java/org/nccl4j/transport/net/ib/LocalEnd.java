package org.nccl4j.transport.net.ib;

/**
 * The local address of this rank's connections.
 *
 * @param port the port
 * @param gid the address of it that is used
 */
record LocalEnd(IbPort port, Gid gid) {}
