/**
 * Puts, gets and signals that kernels themselves begin, with ranks outside the load/store team
 * (NCCL's GIN). A kernel writes a descriptor into a ring in memory that the processor sees too; the
 * communicator's proxy thread sends it as messages over connections made for these, and the
 * receiver's writes the data into the window and raises the signal, or answers with the data.
 *
 * <p>Entrance: {@code GinProxy}; a device gives its memory and copies with a {@code GinDevice}.
 * Layer: above {@code device.kernel}, below the devices.
 */
package org.nccl4j.device.kernel.gin;
