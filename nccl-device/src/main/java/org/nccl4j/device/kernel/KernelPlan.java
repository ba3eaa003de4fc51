package org.nccl4j.device.kernel;

/**
 * What a device needs to launch an operation, prepared once and launched any number of times with
 * different buffers. Made and used by one {@link KernelCommunicator}.
 */
public interface KernelPlan {}
