package org.nccl4j.device.symmetric;

/**
 * The load/store team of a rank, for its kernels.
 *
 * @param first the team's lowest rank; the others follow
 * @param size how many they are
 * @param place which of them this rank is
 * @param resources the library's own window, of {@link SymmetricDevice#resourceBytes} bytes on each
 *     rank, zeroed when new: flags, signals, staging
 * @param address the first address of the flat range
 * @param stride bytes from one rank's stretch of the flat range to the next
 */
public record SymmetricSpace(
    int first, int size, int place, WindowView resources, long address, long stride) {}
