/** The user's API, the plug-in interfaces, and the engine behind them. */
module org.nccl4j.api {
  requires transitive org.nccl4j.topo;
  requires transitive org.nccl4j.device;
  requires jdk.jfr;
  requires static jdk.httpserver;
  requires static micrometer.core;

  exports org.nccl4j.api;
  exports org.nccl4j.api.spi;
  exports org.nccl4j.api.init.ahead to
      org.nccl4j.it;
  exports org.nccl4j.api.init.costs to
      org.nccl4j.it;
  exports org.nccl4j.api.multicast to
      org.nccl4j.transport.nvls;
  exports org.nccl4j.api.observe to
      org.nccl4j.it;
  exports org.nccl4j.api.observe.flight to
      org.nccl4j.it;
  exports org.nccl4j.api.observe.http to
      org.nccl4j.it;
  exports org.nccl4j.api.observe.span to
      org.nccl4j.it;
  exports org.nccl4j.api.plan.algorithm to
      org.nccl4j.it;
  exports org.nccl4j.api.plan.cost to
      org.nccl4j.it;
  exports org.nccl4j.api.plan.trial to
      org.nccl4j.it;
  exports org.nccl4j.api.registry to
      org.nccl4j.it;
  exports org.nccl4j.api.settings to
      org.nccl4j.it,
      org.nccl4j.transport.net,
      org.nccl4j.transport.nvls,
      org.nccl4j.transport.p2p;
  exports org.nccl4j.api.wire to
      org.nccl4j.it,
      org.nccl4j.transport.net,
      org.nccl4j.transport.nvls,
      org.nccl4j.transport.p2p;
  exports org.nccl4j.api.wire.tls to
      org.nccl4j.transport.net;

  uses org.nccl4j.api.multicast.MulticastProvider;
  uses org.nccl4j.api.spi.NetProvider;
  uses org.nccl4j.api.spi.ProfilerProvider;
  uses org.nccl4j.api.spi.TransportProvider;
  uses org.nccl4j.api.spi.TunerProvider;

  provides org.nccl4j.device.cuda.driver.StartupHook with
      org.nccl4j.api.init.WarmUp;
}
