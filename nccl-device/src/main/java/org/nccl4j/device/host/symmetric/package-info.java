/** The host device's exportable memory and its flat ranges: shared segments, mapped many times. */
package org.nccl4j.device.host.symmetric;
