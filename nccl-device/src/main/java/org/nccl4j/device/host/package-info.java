/** The host device: this machine's processor and memory. */
package org.nccl4j.device.host;
