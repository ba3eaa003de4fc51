/**
 * A transport of somebody else's, in src/test/sample-transport: a module of its own, which sees
 * nothing but what nccl-api and nccl-device export.
 */
package org.nccl4j.it.sample;
