/**
 * Parts of failover that sockets and InfiniBand share: the thread that looks after connections
 * ({@code LinkWatch}) and rests while they are idle ({@code RestingWatch}), and the turns by which
 * it and the user of a connection leave each other alone ({@code Turn}). Layer: below the networks.
 */
package org.nccl4j.transport.net.failover;
