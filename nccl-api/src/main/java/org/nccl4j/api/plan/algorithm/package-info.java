/**
 * Chooses the algorithm, protocol and channels of an operation. Layer: below the plan, above the
 * devices and the topology.
 *
 * <p>{@code CommunicatorProfile} is the entrance: it has the facts about all ranks, and puts their
 * {@code CostModel} together. A model predicts times: by a formula ({@code GpuCostModel}, {@code
 * HostCostModel}, {@code NetCostModel}), by NCCL's model of the topology ({@code NcclCosts}), or by
 * measurements ({@code MeasuredCosts}, and {@code TunedTable} for the user's). A {@code
 * CostOverlay} has its own figures for some algorithms, and another model's for all else. {@code
 * AlgorithmSelector} chooses the fastest that the user's settings, the tuner and the buffers allow
 * ({@code BufferReach}); {@code CtaLimits} bounds the channels.
 *
 * <p>All ranks make the same choice, since each decides from the same facts.
 */
package org.nccl4j.api.plan.algorithm;
