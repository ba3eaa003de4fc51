package org.nccl4j.api.init;

/** Everything behind one rank's communicator. */
public final class CommunicatorState {}
