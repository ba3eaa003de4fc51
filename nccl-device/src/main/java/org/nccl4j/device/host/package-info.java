/**
 * The host device: this machine's processor and memory. Layer: top of the {@code host} packages,
 * whose entrance it is; implements the contracts of {@code kernel} and {@code symmetric}.
 */
package org.nccl4j.device.host;
