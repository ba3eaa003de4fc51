/**
 * InfiniBand and RoCE devices of this machine: which ports may be used ({@code IbDevices}, {@code
 * HcaFilter}, {@code IbSettings}), their addresses ({@code GidTable}, {@code GidChoice}), and what
 * is open of them ({@code OpenDevice}, {@code RegistrationCache}, {@code AsyncEvents}). Layer:
 * above {@code ib.verbs}, below the connections of {@code ib}.
 */
package org.nccl4j.transport.net.ib.device;
