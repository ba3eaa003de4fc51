/**
 * Windows: memory that all ranks of a communicator register together. Each rank of a team has it at
 * the same offset of each other rank's part of a flat range. Layer: below the planner, above the
 * bootstrap. It uses devices through {@link org.nccl4j.device.symmetric}, and gets the reach of
 * GPUs from the CUDA device.
 *
 * <p>Registering is an exchange among all ranks. Each rank proposes its allocation. All ranks see
 * all proposals, so they make the same decisions: whether the proposals match, whether the same
 * allocations are already mapped, and at which offset. The ranks of a team then map each other's
 * allocations and report the result to all ranks. So if one rank fails, all fail, and nothing stays
 * mapped.
 */
package org.nccl4j.api.window;
