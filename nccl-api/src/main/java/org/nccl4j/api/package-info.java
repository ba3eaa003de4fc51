/**
 * The user's API: {@link org.nccl4j.api.Communicator} and the types that it uses. Layer: above the
 * engine.
 */
package org.nccl4j.api;
