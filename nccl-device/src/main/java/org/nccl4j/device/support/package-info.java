/**
 * Threads and waits of the project's modules, the release of several resources, and memory that is
 * never freed. Exported to these modules alone. Layer: directly above the public device types;
 * knows no other package.
 */
package org.nccl4j.device.support;
