/**
 * Observes running communicators. {@code ProgressMonitor} is the thread: it updates the flight
 * recorder ({@code org.nccl4j.api.observe.flight}), compares the calls of ranks, and emits events
 * for Java Flight Recorder. {@code Diagnosis} names the waiting and the awaited ranks in one
 * sentence; {@code JobReport} asks a job for the state of all its ranks. Layer: below the launch,
 * above the devices and the bootstrap.
 */
package org.nccl4j.api.observe;
