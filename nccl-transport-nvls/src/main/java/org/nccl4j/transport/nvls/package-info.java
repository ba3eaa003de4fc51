/**
 * NVLink SHARP. Layer: a transport; it knows {@code spi}, {@code settings} and {@code wire} of
 * {@code org.nccl4j.api}, and the devices, and no other transport.
 *
 * <p>Reports a rank's abilities ({@link org.nccl4j.transport.nvls.NvlsProvider}), and makes the
 * multicast object of a communicator together with the other ranks, step by step, so that a failure
 * on one rank ends it on all. The objects belong to the devices.
 */
package org.nccl4j.transport.nvls;
