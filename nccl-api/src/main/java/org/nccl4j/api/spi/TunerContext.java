package org.nccl4j.api.spi;

import org.nccl4j.device.Device;

/**
 * The communicator's facts for a tuner; the same on all ranks.
 *
 * @param communicator its name
 * @param nRanks ranks
 * @param nHosts number of machines of the ranks
 * @param deviceKind host or CUDA
 */
public record TunerContext(String communicator, int nRanks, int nHosts, Device.Kind deviceKind) {}
