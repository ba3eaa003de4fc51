package org.example.filetransport;

import org.nccl4j.api.spi.Transport;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.api.spi.TransportProvider;

/**
 * Connects ranks of one machine through files in NCCL4J_FILE_TRANSPORT_DIR (by default
 * /dev/shm), one for each region. A file is deleted as soon as both ends have mapped it.
 */
public final class FileProvider implements TransportProvider {
  /** For java.util.ServiceLoader. */
  public FileProvider() {}

  @Override
  public String name() {
    return "file";
  }

  @Override
  public int priority() {
    return 10;
  }

  @Override
  public boolean sharesMemory() {
    return true;
  }

  @Override
  public Transport open(TransportContext context) {
    return new FileTransport(context);
  }
}
