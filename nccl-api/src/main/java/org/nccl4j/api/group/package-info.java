/**
 * Takes calls of operations, alone or in groups: checks their arguments, plans and launches them.
 * Layer: below the communicator, above the planner and the launch.
 */
package org.nccl4j.api.group;
