/**
 * {@code nccl top}: operations, bandwidths and waits of running communicators, in a terminal, as
 * JSON, as a page for a browser, and to Prometheus. Layer: command line; reads the flight recorders
 * and the state of jobs ({@code org.nccl4j.api.observe.flight}).
 */
package org.nccl4j.it.top;
