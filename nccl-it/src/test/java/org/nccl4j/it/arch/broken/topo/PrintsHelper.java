package org.nccl4j.it.arch.broken.topo;

/** Prints, throws a generic exception, and has a vague name. */
public class PrintsHelper {
  public void run() {
    System.out.println("hello");
    throw new RuntimeException("something is wrong");
  }
}
