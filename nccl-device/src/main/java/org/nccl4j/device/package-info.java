/**
 * The public types of devices: memory, streams, events, element types and operators. Layer: below
 * the engine; knows no communicator.
 */
package org.nccl4j.device;
