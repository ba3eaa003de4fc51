/**
 * Streams and events of the host device. Layer: above {@code host.memory}, below the kernels.
 *
 * <p>A stream has a queue and needs no thread of its own: the thread that synchronizes it runs the
 * queue in order. So a rank that launches and synchronizes pays for no hand-over between threads,
 * which on a machine with as many ranks as cores costs more than a small operation. A thread that
 * launches into a full queue runs its operations too. The {@link
 * org.nccl4j.device.host.stream.Dispatcher} finds streams that nobody synchronizes, and gives the
 * stream a thread of its own; a stream that once needed it is given it at once from then on, until
 * a thread synchronizes it again. The stream's own thread then ends after the operation that it is
 * running.
 */
package org.nccl4j.device.host.stream;
