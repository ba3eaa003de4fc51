/**
 * What a user sees: {@link org.nccl4j.api.Communicator} and what it needs. Layer: above the whole
 * engine.
 */
package org.nccl4j.api;
