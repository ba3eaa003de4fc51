/**
 * Operations by copy engines: collectives between windows, alone or with a kernel beside, and
 * messages through the slots of connections. Entrances: {@code CopyEngineP2p}, and the plans that
 * {@code cuda.window} makes.
 *
 * <p>Layer: above {@code cuda.plan}, whose kernels it launches to meet and to signal; below {@code
 * cuda.window}.
 */
package org.nccl4j.device.cuda.copy;
