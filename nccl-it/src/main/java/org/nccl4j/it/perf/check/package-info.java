/**
 * Checks results: data whose result is exactly representable for every operator and type, the
 * expected result from plain arithmetic, and the comparison.
 *
 * <p>Layer: above {@code perf.workload}, below {@code perf.rank}. Shares no code with the engine
 * and its kernels, so the two cannot have the same defect.
 */
package org.nccl4j.it.perf.check;
