/**
 * The rules of architecture that a plug-in keeps, as ArchUnit's rules. Layer: beside the contracts;
 * independent of test frameworks.
 *
 * <pre>{@code
 * @Test
 * void keepsTheRules() {
 *   PluginRules.check("com.example.mytransport");
 * }
 * }</pre>
 */
package org.nccl4j.testkit.rules;
