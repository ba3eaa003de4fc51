/**
 * The operations of communicators as spans of OpenTelemetry: {@link
 * org.nccl4j.opentelemetry.OpenTelemetryProfiling} is found by {@link java.util.ServiceLoader}, so
 * the artifact on the class path is enough. Metrics go by {@code
 * org.nccl4j.api.CommunicatorMetrics} and Micrometer's OTLP registry.
 */
package org.nccl4j.opentelemetry;
