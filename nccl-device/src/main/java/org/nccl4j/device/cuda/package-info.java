/**
 * The CUDA device: GPUs of this machine, their memory, streams, events, graphs and kernels.
 *
 * <p>Two ways lead to the driver, each owned: {@code JCudaLibrary} (JCuda), and {@code
 * DriverLibrary} with {@code SharingLibrary} (libcuda.so.1 through jnr-ffi, for what JCuda lacks or
 * gets wrong); all check every result. {@code CudaDevices.probe()} is where a program begins;
 * without a driver or a GPU it answers with the reason. Layer: beside the host device, below the
 * engine.
 */
package org.nccl4j.device.cuda;
