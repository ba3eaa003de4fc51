package org.nccl4j.transport.net.ib;

/**
 * Where this rank's connections leave from.
 *
 * @param port the port
 * @param gid the address of it that is used
 */
record LocalEnd(IbPort port, Gid gid) {}
