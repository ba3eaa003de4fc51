/**
 * GPUs as the driver has them: {@link org.nccl4j.device.cuda.driver.Gpu}, its context, and the
 * driver's functions with their results checked.
 *
 * <p>{@code CudaLibrary}, {@code DriverLibrary}, {@code SharingLibrary}, {@code CaptureLibrary} and
 * {@code MulticastLibrary} call libcuda.so.1 through {@code NativeLibrary}, and nothing else does.
 * JCuda is there for its constants and types, and is never called: its switches, such as {@code
 * setExceptionsEnabled}, are for the whole process. {@code DriverStart} starts the driver, or says
 * why it cannot be used.
 *
 * <p>Layer: the lowest of the CUDA device, above {@code device.bind} and {@code cuda.nvml}. The
 * rooms above name {@code Gpu}, not {@code CudaDevice}. Exported to this library's own modules.
 */
package org.nccl4j.device.cuda.driver;
