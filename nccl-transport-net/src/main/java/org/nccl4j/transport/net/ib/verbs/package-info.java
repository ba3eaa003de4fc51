/**
 * libibverbs as Java sees it: {@code Verbs} alone calls it, its structures are laid out as {@code
 * VerbsLayout} says in {@code Offheap}s. Layer: below {@code ib.device} and {@code ib}, above
 * {@code ib.bind}.
 */
package org.nccl4j.transport.net.ib.verbs;
