/**
 * What the other packages found, for people: a tree of the machine, sentences that say why, and a
 * drawing. Layer: above {@code cluster}; decides nothing.
 */
package org.nccl4j.topo.report;
