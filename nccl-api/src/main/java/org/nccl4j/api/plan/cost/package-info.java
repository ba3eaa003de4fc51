/**
 * Predicts the time of an operation with each algorithm and protocol. Layer: below the choice of
 * algorithms, above the devices and the topology.
 *
 * <p>{@code CommunicatorProfile} is the entrance: it has the facts about all ranks, and puts their
 * {@code CostModel} together. A model predicts times: by a formula ({@code GpuCostModel}, {@code
 * HostCostModel}, {@code NetCostModel}), by NCCL's model of the topology ({@code NcclCosts}), or by
 * measurements ({@code MeasuredCosts}, and {@code TunedTable} for the user's). A {@code
 * CostOverlay} has its own figures for some algorithms, and another model's for all else.
 *
 * <p>All ranks predict the same times, since each decides from the same facts.
 */
package org.nccl4j.api.plan.cost;
