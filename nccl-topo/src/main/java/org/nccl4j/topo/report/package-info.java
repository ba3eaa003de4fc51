/**
 * Reports for people about the results of the other packages: a tree of the machine, explanations,
 * and a drawing. Layer: above {@code cluster}; decides nothing.
 */
package org.nccl4j.topo.report;
