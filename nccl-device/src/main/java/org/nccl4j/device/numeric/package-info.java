/**
 * The small floating-point types that Java lacks, as bits, and their exact conversions.
 *
 * <p>Widening is exact. Narrowing rounds once, to nearest, ties to even, from float and from double
 * alike. Every NaN becomes the one that CUDA's conversions make. Layer: above {@link
 * org.nccl4j.device.DataType} alone; used by {@code host.reduce} and the command line.
 */
package org.nccl4j.device.numeric;
