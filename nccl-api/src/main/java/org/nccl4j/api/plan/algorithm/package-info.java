/**
 * Chooses the algorithm, protocol and channels of an operation. Layer: below the plan, above the
 * costs.
 *
 * <p>{@code AlgorithmSelector} chooses the fastest by a {@code CostModel} that the user's settings,
 * the tuner and the buffers allow ({@code BufferReach}); {@code CtaLimits} bounds the channels. All
 * ranks make the same choice.
 */
package org.nccl4j.api.plan.algorithm;
