package org.nccl4j.api.bootstrap;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.wire.InterfaceFilter;

class RingAddressesTest {
  @Test
  void othersAreToldFirstWhatLedToTheRoot() {
    List<InetAddress> both = addresses("10.0.0.1", "10.1.0.1");
    List<InetAddress> swapped = addresses("10.1.0.1", "10.0.0.1");
    assertEquals(swapped, forOthers("10.1.0.1", both, "eth"));
    assertEquals(both, forOthers("10.9.0.1", both, "eth"));
    assertEquals(addresses("10.9.0.1", "10.0.0.1", "10.1.0.1"), forOthers("10.9.0.1", both, ""));
  }

  @Test
  void loopbackIsToldOthersOnlyWhereItLedToTheRootOrIsAllThereIs() {
    List<InetAddress> loToo = addresses("10.0.0.1", "127.0.0.1");
    assertEquals(addresses("10.0.0.1"), forOthers("10.0.0.1", loToo, "^docker"));
    assertEquals(addresses("127.0.0.1", "10.0.0.1"), forOthers("127.0.0.1", loToo, "^docker"));
    assertEquals(addresses("127.0.0.1"), forOthers("10.0.0.1", addresses("127.0.0.1"), "lo"));
  }

  private static List<InetAddress> forOthers(
      String toRoot, List<InetAddress> all, String interfaces) {
    return RingAddresses.choose(address(toRoot), all, new InterfaceFilter(interfaces, ""));
  }

  private static List<InetAddress> addresses(String... all) {
    return Arrays.stream(all).map(RingAddressesTest::address).toList();
  }

  private static InetAddress address(String text) {
    try {
      return InetAddress.getByName(text);
    } catch (UnknownHostException e) {
      throw new IllegalArgumentException(e);
    }
  }
}
