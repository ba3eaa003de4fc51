/** The transports under the contract, and their own limits. */
package org.nccl4j.it.transport;
