/**
 * Makes a communicator: finds the other ranks, chooses transports, connects, and puts the engine
 * together. Layer: above the other engine packages, below the communicator.
 */
package org.nccl4j.api.init;
