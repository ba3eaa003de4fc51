/**
 * What every transport has to keep, as checks that its author runs against it. Layer: above the
 * transports' interface; needs no test framework, so that it fits any.
 *
 * <p>Extend {@link org.nccl4j.it.contract.TransportContract}, say which provider it is about, and
 * run its checks; with JUnit:
 *
 * <pre>{@code
 * class MyTransportTest extends TransportContract {
 *   protected TransportProvider provider() {
 *     return new MyProvider();
 *   }
 *
 *   protected List<PeerInfo> unreachable() {
 *     return List.of(...); // else reachesAll() is true
 *   }
 *
 *   protected List<Path> filesOf(long processId) {
 *     return ...; // else usesNoFiles() is true
 *   }
 *
 *   @TestFactory
 *   Stream<DynamicTest> contract() {
 *     return checks().stream().map(check -> dynamicTest(check.name(), check::run));
 *   }
 * }
 * }</pre>
 */
package org.nccl4j.it.contract;
