/**
 * InfiniBand and RoCE through libibverbs. Layer: a network below the NET transport; depends on the
 * SPI, api.wire and nothing else of the engine.
 *
 * <p>{@link org.nccl4j.transport.net.ib.IbProvider} looks at the machine. A receiver listens by
 * TCP, a sender dials; both prove that they know the communicator's secret and tell each other
 * their queue pairs. From then on everything goes by RDMA over reliable connections: the receiver
 * writes where messages may go into the sender's memory (ClearToSend), the sender writes the
 * message there and ends it by a write with immediate (Immediate). The TCP connection stays open
 * (ib.control), for each end to see the other go, and to make other queue pairs (PortQueues) in
 * place of broken ones (QpFailover).
 *
 * <p>Verbs alone calls libibverbs; structures are laid out as VerbsLayout says.
 */
package org.nccl4j.transport.net.ib;
