/**
 * {@code nccl trace}: a timeline of the operations of all ranks, from recordings of Java Flight
 * Recorder or of a job's ranks, as a file for Perfetto and chrome://tracing. Layer: command line.
 */
package org.nccl4j.it.trace;
