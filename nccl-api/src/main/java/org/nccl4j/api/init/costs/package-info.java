/**
 * Tells where the times come from by which a communicator would choose algorithms, without making
 * one. Layer: beside the creation, whose parts it asks; for the command line.
 */
package org.nccl4j.api.init.costs;
