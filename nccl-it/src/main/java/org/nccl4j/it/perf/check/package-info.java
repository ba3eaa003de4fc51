/**
 * Whether a result is right: data from which every operator gives an exactly representable result
 * in every type, the result by plain arithmetic, and the comparison.
 *
 * <p>Shares no code with the engine and its kernels, so that both cannot be wrong together.
 */
package org.nccl4j.it.perf.check;
