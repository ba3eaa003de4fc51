/**
 * Streams of a GPU and what orders them: captures and graphs, the order of launches on shared
 * connections, and the progress of what was launched.
 *
 * <p>Entrance: {@link org.nccl4j.device.cuda.stream.GpuStream}, which plans are launched into; a
 * user's {@code CudaStream} holds one. Layer: above {@code cuda.driver}, beside {@code
 * cuda.memory}.
 */
package org.nccl4j.device.cuda.stream;
