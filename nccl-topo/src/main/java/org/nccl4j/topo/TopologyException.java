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
    this(what + " at " + where + ": " + why, where, remedy);
  }

  /**
   * An error whose sentence names the place.
   *
   * @param problem the fact, the place and the cause
   * @param where the file and line, or the device
   * @param remedy what to change
   */
  public TopologyException(String problem, String where, String remedy) {
    super(problem + ". Remedy: " + remedy + ".");
    this.problem = problem;
    this.where = where;
    this.remedy = remedy;
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
