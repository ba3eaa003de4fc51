/**
 * Operations straight between the ranks' windows, by kernels, multicast or copy engines. Entrance:
 * {@code DirectPlans}, {@code ExpertPlans} for tokens and experts, and {@code RaggedPlans}.
 *
 * <p>{@code DirectLayout} has the offsets in the library's own window, {@code DirectArguments} and
 * {@code NvlsDirectArguments} those of direct_layout.h and nvls_direct_layout.h in src/main/cuda;
 * {@code ExpertLayout} and {@code ExpertArguments} are the same of experts, {@code RaggedArguments}
 * of ragged exchanges, and {@code DirectGroupArguments} of operations of groups that one kernel
 * runs ({@code LineGroup}). Layer: above {@code cuda.copy}, below {@code CudaKernelCommunicator}.
 */
package org.nccl4j.device.cuda.window;
