/**
 * Element-wise arithmetic on host memory, for every type and operator. {@link
 * org.nccl4j.device.host.reduce.Reductions} is the entrance. Layer: above {@code host.memory} and
 * {@code numeric}, below the kernels.
 *
 * <p>Floating-point results are rounded once, to nearest even. Averages divide each rank's element
 * by the ranks, as one correctly rounded division and not as a product with a rounded reciprocal,
 * which for float8 could be off by 3 percent. Float8 saturates, as CUDA's {@code __nv_fp8}
 * constructors and with them NCCL's kernels do: no result is infinite. Which NaN a NaN is, is not
 * promised. Of NCCL's float8 results a few differ in the last place: it rounds to half first.
 */
package org.nccl4j.device.host.reduce;
