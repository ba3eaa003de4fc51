/**
 * An installed libnccl, measured beside ours by {@code perf --compare libnccl}: in the same
 * process, by the same threads, on the same buffers and streams. Layer: below {@code perf.rank};
 * the library itself knows nothing of it.
 */
package org.nccl4j.it.perf.nccl;
