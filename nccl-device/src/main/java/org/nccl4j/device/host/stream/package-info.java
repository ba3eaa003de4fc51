/**
 * Streams and events of the host device.
 *
 * <p>A stream has a queue and no thread that it must wait for: whoever synchronizes it lends it the
 * calling thread, which runs the queue in order. So a rank that launches and synchronizes pays for
 * no hand-over between threads, which on a machine with as many ranks as cores costs more than a
 * small operation. Who launches into a full queue lends it the thread too. What nobody synchronizes
 * is found by the {@link org.nccl4j.device.host.stream.Dispatcher}, which gives the stream a thread
 * of its own; a stream that once needed it is given it at once from then on, until somebody lends
 * it a thread again. To that one the stream's own gives way after the operation that it is running.
 */
package org.nccl4j.device.host.stream;
