/**
 * Kernels that are loaded on a GPU: the library's, in families of a fatbin each, and those of
 * users' functors.
 *
 * <p>{@code KernelModules} is the entrance; it gives plans the functions that they launch. Layer:
 * above {@code cuda.driver}, below {@code cuda.plan}.
 */
package org.nccl4j.device.cuda.module;
