/**
 * NVIDIA's management library: which GPUs the machine has, and which NVLinks and NVLink fabric
 * connect them. Entrance: {@link org.nccl4j.device.cuda.nvml.Nvml}.
 *
 * <p>Layer: above {@code device.bind} alone. The driver's package asks it for fabrics, the engine
 * for links. Exported to the engine and the command line.
 */
package org.nccl4j.device.cuda.nvml;
