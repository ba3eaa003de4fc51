package org.nccl4j.it.doctor;

/**
 * One line of the doctor's report.
 *
 * @param subject what was looked at
 * @param status how it is
 * @param detail what was found, and why it matters if it is not well
 * @param fix the command or setting that mends it; empty if nothing needs to be
 * @param required whether nothing works without it
 */
record Finding(String subject, Status status, String detail, String fix, boolean required) {
  enum Status {
    OK,
    WARN,
    MISSING,
    WRONG
  }

  static Finding ok(String subject, String detail) {
    return new Finding(subject, Status.OK, detail, "", false);
  }

  static Finding warn(String subject, String detail, String fix) {
    return new Finding(subject, Status.WARN, detail, fix, false);
  }

  static Finding missing(String subject, String detail, String fix) {
    return new Finding(subject, Status.MISSING, detail, fix, false);
  }

  static Finding broken(String subject, String detail, String fix) {
    return new Finding(subject, Status.WRONG, detail, fix, true);
  }

  /** True if there is nothing to repair. */
  boolean isGood() {
    return status == Status.OK;
  }

  /** True if this keeps everything from working. */
  boolean fatal() {
    return required && status == Status.WRONG;
  }
}
