/**
 * The flight recorder: {@code FlightRecorder} and {@code LinkRecord} write the operations and links
 * of a communicator's rank into the memory of a {@code FlightFile}; {@code FlightReader} reads them
 * as {@code RankReport}s, of this process or another; {@code StateMessage} encodes reports for an
 * observer of the job. Layer: below the rest of {@code observe}, above the devices.
 *
 * <p>The recorder is memory of each process. Other processes of the same user read it through
 * {@code /proc/PID/fd}, even if the process is stopped or hangs. It disappears with the process.
 * Its layout, in the machine's byte order:
 *
 * <pre>
 * pages of 6 KiB
 * page 0: magic "nccl4jFR" (8), version (u32), process (u64 at 16), began, ms since 1970 (u64 at
 *         24), host (64 bytes at 64), names of operations by number, separated by spaces (at 128)
 * page 1 + s: slot of a communicator's rank
 *   0    1 in use (u32), rank (u32), ranks (u32), rank that is waited for or -1 (i32)
 *   16   communicator (u64, the same for all its ranks)
 *   24   operations launched (57 bits), place of the last run, the one before it being at the place
 *        before that (lowest 7 bits); operations ended, as last observed (u64)
 *   40   when ended last grew, when last observed (u64 each, ms since 1970)
 *   56   1 failed (u32)
 *   192  where calls are compared: number of the oldest call that waits for the other ranks, among
 *        all of the process, or 0; its stream; since when it is the oldest (u64 each)
 *   216  highest number that the oldest operation that has not ended can have (u64)
 *   224  operations launched that not all ranks call (u64): the others are the collectives
 *   232  the number of the call at 192 among those of this communicator (u64)
 *   64   name (u32 length, then at most 124 bytes)
 *   256  last 128 runs of 24 bytes each; a run is operations of one shape and count in a row: shape
 *        (u64: operation 6 bits, type 5, operator 4, 1 if not all ranks call it, unused 16, root or
 *        peer 32, from the highest), count (u64), number of its first operation, from 1 (u64)
 *   3328 data of links, 20 entries of 120 bytes: rank or -1 (i32), transport (12 bytes, empty: unused),
 *        network and device (24 bytes); bytes sent and received so far, ms with data under way
 *        and ms of these without progress (u64 each); the last 5 to 10 s (u64 each): ms, bytes that
 *        arrived at the rank, ms with data under way, ms of these without progress, bytes received,
 *        ms with room for data; the last entry is the sum of ranks without their own, which has
 *        bytes alone
 *   5728 replaced paths, 4 entries of 72 bytes: rank or -1 (i32), number of paths (u32; 0: unused),
 *        when the last was replaced (u64, ms since 1970), bytes sent again (u64), path of the last
 *        (48 bytes); the last entry is the sum of ranks without their own
 *   6016 device: "host" or the GPU's PCI address (32 bytes, empty: not known)
 *   6048 operations that launches of graphs have repeated, their bytes, and these times the bus
 *        factor (u64 each)
 * </pre>
 *
 * <p>This is version 5; those before it were before the first release, and are not read.
 */
package org.nccl4j.api.observe.flight;
