/**
 * The CUDA device: GPUs of this machine, their streams, graphs and communicators. A program begins
 * with {@link org.nccl4j.device.cuda.CudaDevices#probe}, or {@code Devices.cuda()} of the API;
 * without a driver or a GPU the answer is the reason.
 *
 * <p>The packages below are rooms of one layer each, and name only what is under them:
 *
 * <pre>
 *   driver   the driver's functions, Gpu, contexts; nvml the management library
 *   memory   memory, shared and pinned; multicast objects
 *   stream   streams, captures, the order of launches
 *   plan     kernels with their arguments
 *   copy     copy engines
 *   rma      puts and signals to ranks of other machines
 *   window   operations between windows
 * </pre>
 *
 * <p>Layer: beside the host device, below the engine. This package is the only one for users.
 */
package org.nccl4j.device.cuda;
