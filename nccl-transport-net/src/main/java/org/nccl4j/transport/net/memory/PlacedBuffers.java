package org.nccl4j.transport.net.memory;

import org.nccl4j.device.connection.Connection.PlacedSteps;

/**
 * The buffers in which a proxy may receive.
 *
 * @param steps whose data are wanted there
 * @param gpu gives the network memory of a GPU; null on the host device
 */
public record PlacedBuffers(PlacedSteps steps, GpuBuffers gpu) {}
