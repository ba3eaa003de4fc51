/**
 * Protocols of the host device: both ends of connections, and the primitives that move one chunk
 * from and to some peers. All ranks derive the same sequence of chunks from the work alone, so the
 * steps of a connection match without any message about them. A chunk of no bytes is no step.
 *
 * <p>The lowest room of the host's kernels.
 */
package org.nccl4j.device.host.kernel.protocol;
