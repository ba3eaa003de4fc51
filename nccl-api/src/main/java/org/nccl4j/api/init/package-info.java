/**
 * Creates a communicator: meets the other ranks, chooses transports, connects, and makes the
 * engine. Layer: above the other engine packages, below the communicator.
 */
package org.nccl4j.api.init;
