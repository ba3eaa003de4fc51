/**
 * {@code nccl top}: operations, bandwidths and waits of running communicators, in a terminal, as
 * JSON, as a page for a browser, and to Prometheus. {@code TrafficMap} maps the ranks' traffic to
 * the links of the hosts' machines, for the page. Layer: command line; reads the flight recorders
 * and the state of jobs ({@code org.nccl4j.api.observe.flight}), and the machines of hosts ({@code
 * org.nccl4j.it.topo}).
 */
package org.nccl4j.it.top;
