package org.nccl4j.topo;

/**
 * Thrown for a topology that cannot be read, or from which no graph can be built. The message has
 * the fact, place, cause and remedy.
 */
public final class TopologyException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final String problem;
  private final String where;
  private final String remedy;

  /**
   * An error with its four parts.
   *
   * @param what what failed
   * @param where the file and line, or the device
   * @param why the fact that made it fail
   * @param remedy what to change
   */
  public TopologyException(String what, String where, String why, String remedy) {
    super(problem(what, where, why) + ". Remedy: " + remedy + ".");
    this.problem = problem(what, where, why);
    this.where = where;
    this.remedy = remedy;
  }

  private static String problem(String what, String where, String why) {
    return what + " at " + where + ": " + why;
  }

  /** The fact, the place and the cause. */
  public String problem() {
    return problem;
  }

  /** The file and line, or the device. */
  public String where() {
    return where;
  }

  /** Returns the change that fixes the error. */
  public String remedy() {
    return remedy;
  }
}
