/** Tests of JVMs and platforms that differ in how native functions can be called, if at all. */
package org.nccl4j.it.natives;
