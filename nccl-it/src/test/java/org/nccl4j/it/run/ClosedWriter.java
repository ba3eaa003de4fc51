package org.nccl4j.it.run;

import java.io.IOException;
import java.io.Writer;

/** A pipe that nobody reads any more, as after "| head". */
public final class ClosedWriter extends Writer {
  @Override
  public void write(char[] text, int from, int length) throws IOException {
    throw new IOException("Broken pipe");
  }

  @Override
  public void flush() {
    // Nothing is buffered.
  }

  @Override
  public void close() {
    // Nothing is open.
  }
}
