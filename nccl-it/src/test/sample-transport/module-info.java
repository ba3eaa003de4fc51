import org.example.filetransport.FileProvider;

/** A transport that somebody else wrote: connections through files that both ends map. */
module org.example.filetransport {
  requires org.nccl4j.api;

  provides org.nccl4j.api.spi.TransportProvider with
      FileProvider;
}
