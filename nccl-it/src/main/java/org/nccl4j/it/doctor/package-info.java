/**
 * {@code nccl doctor} and {@code nccl diagnose}: examine this machine, or running programs, and
 * print each problem with its remedy. Layer: a command, below {@code cli}; above the engine.
 */
package org.nccl4j.it.doctor;
