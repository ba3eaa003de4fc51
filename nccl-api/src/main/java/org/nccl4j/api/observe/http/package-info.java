/**
 * Serves the state of a job by HTTP ({@code JobServer}), as JSON and to Prometheus. {@code
 * GetServer} and {@code PrometheusWriter} also serve {@code nccl top}. Layer: above {@code
 * org.nccl4j.api.observe}, which is not exported and whose reports it writes; the only package that
 * needs the module jdk.httpserver.
 */
package org.nccl4j.api.observe.http;
