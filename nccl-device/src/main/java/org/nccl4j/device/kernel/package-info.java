/**
 * The contract of engine and devices: works, plans and their launches. Exported to the project's
 * modules alone. Layer: below the engine, above {@code connection}.
 */
package org.nccl4j.device.kernel;
