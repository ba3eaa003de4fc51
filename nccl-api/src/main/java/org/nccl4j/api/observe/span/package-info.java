/**
 * Operations of a job's ranks for an observer ({@code JobTrace}), which asks the ranks through the
 * bootstrap's roots ({@code SpanQuestion}). A rank adds them to its {@code SpanLogs} and sends them
 * as {@code SpanMessage}s. Layer: below {@code org.nccl4j.api.observe}, which records the
 * operations; above the bootstrap.
 */
package org.nccl4j.api.observe.span;
