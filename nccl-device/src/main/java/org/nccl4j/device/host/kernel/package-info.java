/**
 * Communicators of the host device: the entrance to its kernels. Plans wait in streams, and kernels
 * of communicators that share connections run one after the other. Layer: above {@code
 * host.kernel}'s own packages {@code algorithm}, {@code nvls}, {@code window} and {@code protocol},
 * below {@code host}.
 */
package org.nccl4j.device.host.kernel;
