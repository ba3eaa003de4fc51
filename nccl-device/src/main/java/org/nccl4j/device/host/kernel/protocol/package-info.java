/**
 * Protocols of the host device: both ends of connections, and the primitives that move one chunk
 * from and to some peers. All ranks derive the same sequence of chunks from the work alone, so the
 * steps of a connection match without any message about them. A chunk of no bytes is no step.
 * Layer: lowest of the host's kernels; above {@code host.memory}, {@code host.reduce} and {@code
 * host.stream}.
 */
package org.nccl4j.device.host.kernel.protocol;
