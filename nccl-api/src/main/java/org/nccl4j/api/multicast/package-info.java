/**
 * The interface between the engine and nccl-transport-nvls: memory of all ranks of a machine that
 * one access reaches. Exported to that module alone. Layer: beside the SPI, below the engine, above
 * the devices' kernels.
 */
package org.nccl4j.api.multicast;
