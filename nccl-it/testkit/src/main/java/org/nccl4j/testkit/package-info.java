/**
 * The contract of every transport, as checks that its author runs. Layer: above the transports'
 * interface; independent of test frameworks.
 *
 * <p>Extend {@link org.nccl4j.testkit.TransportContract}, name the provider, and run the checks;
 * with JUnit:
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
package org.nccl4j.testkit;
