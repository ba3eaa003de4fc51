/**
 * Finds the choices that a communicator would make, the source of the times with which it would
 * make them, and whether it would use NVLink SHARP, without creating one. Layer: beside the
 * creation, whose parts it uses; for the command line.
 */
package org.nccl4j.api.init.costs;
