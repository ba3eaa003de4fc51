package org.nccl4j.transport.net.ib;

import org.nccl4j.transport.net.ib.device.IbPort;
import org.nccl4j.transport.net.ib.verbs.Gid;

/**
 * The local address of this rank's connections.
 *
 * @param port the port
 * @param gid the address of it that is used
 */
record LocalQpInfo(IbPort port, Gid gid) {}
