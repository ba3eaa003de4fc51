/**
 * {@code nccl plan}: the communication of a training step before the job runs. It lists the layouts
 * of a transformer over GPUs, the collectives of each, and their times by the topology's cost
 * model. Layer: command line; above the topology ({@code org.nccl4j.topo}).
 */
package org.nccl4j.it.plan;
