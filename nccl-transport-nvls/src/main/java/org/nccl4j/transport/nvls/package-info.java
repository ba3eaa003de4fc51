/**
 * NVLink SHARP. Layer: a transport; it knows {@code org.nccl4j.api.spi} and the devices, and no
 * other transport.
 *
 * <p>Says what a rank brings along ({@link org.nccl4j.transport.nvls.NvlsProvider}), and makes the
 * multicast object of a communicator together with the other ranks, step by step, so that a failure
 * on one of them ends it on all. The objects themselves are the devices'.
 */
package org.nccl4j.transport.nvls;
