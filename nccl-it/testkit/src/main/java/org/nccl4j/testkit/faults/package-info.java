/**
 * Faults of networks for tests: connections of a {@code Net} that lose, delay or fail, and TCP
 * connections that are cut. Used by the contract suites and by tests of programs. Layer: beside the
 * contract suites, above {@code nccl-transport-net}.
 */
package org.nccl4j.testkit.faults;
