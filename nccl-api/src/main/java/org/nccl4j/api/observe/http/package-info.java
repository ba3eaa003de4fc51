/**
 * Serves the state of a job by HTTP ({@code JobServer}), as JSON and to Prometheus. {@code
 * HttpServers} and {@code PrometheusWriter} also serve {@code nccl top}. Layer: above {@link
 * org.nccl4j.api.observe}, whose reports it writes; the only package that needs the module
 * jdk.httpserver.
 */
package org.nccl4j.api.observe.http;
