/**
 * The TCP connections of InfiniBand's ends: over them they tell each other their queue pairs
 * ({@code RemoteQpInfo}), make others ({@code FailoverMessage}), and notice that the other end
 * closes ({@code ControlConnection}). Layer: above {@code ib.device}, below the connections of
 * {@code ib}.
 */
package org.nccl4j.transport.net.ib.control;
