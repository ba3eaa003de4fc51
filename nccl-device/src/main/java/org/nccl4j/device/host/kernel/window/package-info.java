/**
 * Kernels of the host device on windows: direct collectives, puts and signals, and the messages
 * that carry them where memory cannot be reached. Layer: above {@code protocol}, below {@code
 * host.kernel}.
 */
package org.nccl4j.device.host.kernel.window;
