package org.nccl4j.it.rdma;

import java.util.HashMap;
import java.util.Map;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.testkit.Check;
import org.nccl4j.testkit.NetContract;
import org.nccl4j.transport.net.ib.IbProvider;

/**
 * InfiniBand keeps the contract of networks. Run in the guest, as a program whose arguments are
 * settings NAME=VALUE: prints a line for each check.
 */
public final class IbContract extends NetContract {
  private final Map<String, String> settings;

  /** With these settings. */
  public IbContract(Map<String, String> settings) {
    this.settings = Map.copyOf(settings);
  }

  @Override
  protected NetProvider provider() {
    return new IbProvider();
  }

  @Override
  protected Map<String, String> settings() {
    return settings;
  }

  /** See the class. */
  public static void main(String[] args) {
    Map<String, String> settings = new HashMap<>();
    for (String arg : args) {
      int equals = arg.indexOf('=');
      settings.put(arg.substring(0, equals), arg.substring(equals + 1));
    }
    for (Check check : new IbContract(settings).checks()) {
      try {
        check.run();
        System.out.println("kept: " + check.name());
      } catch (Throwable e) {
        System.out.println("broken: " + check.name() + ": " + e);
        e.printStackTrace(System.out);
      }
    }
  }
}
