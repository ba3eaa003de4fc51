/**
 * A communicator from its creation to its close. {@link org.nccl4j.api.init.Initializer} creates
 * one, {@link org.nccl4j.api.init.ChildCommunicators} splits and shrinks one, and {@link
 * org.nccl4j.api.init.CommunicatorState} is the entrance for the user's handle.
 *
 * <p>Layer: above all other engine packages, below the communicator. Rooms, lowest first; each uses
 * only those before it: {@link org.nccl4j.api.init.ahead}, {@link org.nccl4j.api.init.peers},
 * {@link org.nccl4j.api.init.topology}, {@link org.nccl4j.api.init.connect}, {@link
 * org.nccl4j.api.init.probe}, {@link org.nccl4j.api.init.engine}, this package, and {@link
 * org.nccl4j.api.init.costs} beside it.
 */
package org.nccl4j.api.init;
