/**
 * The bootstrap's root: it collects a block of the ranks and sends each its place in the ring, or
 * an error. Layer: between the bootstrap and its {@code connection}s.
 *
 * <p>{@code RootService} is the entrance. Ranks send a {@code JoinMessage}, are checked by the
 * {@code MembershipTable} and get a {@code JoinReply} or a {@code FailureMessage}; afterwards
 * {@code HeartbeatMonitor} watches them. {@code RootPartition} divides ranks among several roots.
 */
package org.nccl4j.api.bootstrap.root;
