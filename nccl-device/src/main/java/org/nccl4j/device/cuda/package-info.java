/**
 * The CUDA device: GPUs of this machine, their memory, streams, events, graphs and kernels.
 *
 * <p>{@code CudaLibrary}, {@code DriverLibrary}, {@code SharingLibrary} and {@code CaptureLibrary}
 * call the driver (libcuda.so.1 through jnr-ffi) and check every result. JCuda is there for its
 * types, in which users have streams and pointers, and is never called: its switches, such as
 * {@code setExceptionsEnabled}, are for the whole process. {@code CudaDevices.probe()} is where a
 * program begins; without a driver or a GPU it answers with the reason. Layer: beside the host
 * device, below the engine.
 */
package org.nccl4j.device.cuda;
