/**
 * Communicators of the host device: the entrance to its kernels. {@link
 * org.nccl4j.device.host.kernel.Kernels} has the table of algorithms; plans wait in streams, and
 * kernels of communicators that share connections run one after the other.
 *
 * <p>Above the rooms {@code algorithm}, {@code nvls}, {@code window} and {@code protocol}.
 */
package org.nccl4j.device.host.kernel;
