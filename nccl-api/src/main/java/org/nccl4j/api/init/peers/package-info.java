/**
 * The first exchange of a creation: each rank sends a {@link org.nccl4j.api.init.peers.PeerHello},
 * and all ranks derive the same {@link org.nccl4j.api.init.peers.Membership} and {@link
 * org.nccl4j.api.init.peers.HostLayout} from it.
 *
 * <p>Layer: lowest room of {@link org.nccl4j.api.init}. Neighbours: {@link
 * org.nccl4j.api.bootstrap} carries the bytes, {@link org.nccl4j.api.init.topology} exchanges the
 * machines next.
 */
package org.nccl4j.api.init.peers;
