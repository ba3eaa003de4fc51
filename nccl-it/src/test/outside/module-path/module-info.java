/** A program that knows the API alone; the transport comes in by its service. */
module org.example.sum {
  requires org.nccl4j.api;
}
