/**
 * Kernels with their arguments, for collectives, sends and receives over connections on a GPU.
 *
 * <p>{@code KernelLayout} has the offsets that layout.h in src/main/cuda has too. {@code
 * PlanContext} is a communicator as its plans know it. Entrances: {@code CollectivePlans}, {@code
 * PreMulPlans}, {@code NvlsPlans} and {@code P2pPlans}, which make a {@code CudaPlan}. Layer: above
 * {@code cuda.memory} and {@code cuda.stream}.
 */
package org.nccl4j.device.cuda.plan;
