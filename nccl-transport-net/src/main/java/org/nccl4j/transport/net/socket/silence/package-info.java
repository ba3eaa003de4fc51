/**
 * Sockets over which nothing comes any more, though they have not broken: when to doubt one, and
 * how to dial another before it is left. Layer: network; used by the network of sockets, and
 * depends on api.wire alone.
 */
package org.nccl4j.transport.net.socket.silence;
