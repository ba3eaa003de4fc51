/** Traces which files of the project a call goes through. Tests alone. */
package org.nccl4j.it.path;
