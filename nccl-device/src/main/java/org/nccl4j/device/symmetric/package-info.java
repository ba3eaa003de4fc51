/**
 * Symmetric memory: ranks load from and store to it at addresses that differ by a constant. Windows
 * consist of it. Layer: below the engine, beside the devices' kernels; a device implements {@link
 * org.nccl4j.device.symmetric.SymmetricDevice}, the engine's windows use it.
 *
 * <p>A rank reserves one {@link org.nccl4j.device.symmetric.FlatRange}: for every rank that it can
 * load from and store to (its team) a stretch of {@code stride} addresses. An allocation that all
 * of the team register is mapped at the same offset of every stretch, so that rank {@code r}'s byte
 * lies {@code r * stride} after rank 0's.
 */
package org.nccl4j.device.symmetric;
