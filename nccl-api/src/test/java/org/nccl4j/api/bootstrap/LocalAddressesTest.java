package org.nccl4j.api.bootstrap;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.bootstrap.LocalAddresses.Candidate;
import org.nccl4j.api.settings.PortRange;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.SystemErrorException;

class LocalAddressesTest {
  private static final Candidate LO = candidate("lo", true, "127.0.0.1", "::1");
  private static final Candidate ETH0 = candidate("eth0", false, "fd00::1", "10.0.0.1", "10.0.0.2");
  private static final Candidate ETH1 = candidate("eth1", false, "10.1.0.1");
  private static final Candidate DOCKER = candidate("docker0", false, "172.17.0.1");
  private static final Candidate BARE = candidate("ib0", false);
  private static final List<Candidate> ALL = List.of(LO, DOCKER, ETH0, ETH1, BARE);

  @Test
  void withoutASelectionAllThatLeadSomewhereAreNamedAndLoopbackLast() {
    assertEquals(addresses("10.0.0.1", "10.1.0.1", "127.0.0.1"), choose(ALL, "", ""));
    assertEquals(addresses("fd00::1", "::1"), choose(ALL, "", "AF_INET6"));
    assertEquals(addresses("172.17.0.1", "127.0.0.1"), choose(List.of(LO, DOCKER), "", ""));
    assertEquals(addresses("127.0.0.1"), choose(List.of(LO), "", ""));
  }

  @Test
  void allSelectedInterfacesAreNamed() {
    assertEquals(addresses("10.0.0.1", "10.1.0.1"), choose(ALL, "eth", ""));
    assertEquals(addresses("10.1.0.1"), choose(ALL, "=eth1", ""));
    assertEquals(addresses("172.17.0.1", "10.1.0.1"), choose(ALL, "=eth1,docker0", ""));
    assertEquals(addresses("10.0.0.1", "10.1.0.1", "127.0.0.1"), choose(ALL, "^docker", ""));
    assertEquals(addresses("127.0.0.1"), choose(ALL, "lo", ""));
    assertEquals(addresses("fd00::1"), choose(ALL, "eth", "AF_INET6"));
  }

  @Test
  void anIdHasRoomForAllThatAreNamed() {
    List<Candidate> many =
        IntStream.range(0, 9)
            .mapToObj(i -> candidate("eth" + i, false, "fd00::" + (i + 1)))
            .toList();
    List<InetAddress> chosen = choose(many, "eth", "");
    assertEquals(addresses("fd00::1", "fd00::2", "fd00::3", "fd00::4"), chosen);
  }

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

  @Test
  void whereNothingIsLeftTheErrorSaysWhatThereIs() {
    InvalidArgumentException wrong =
        assertThrows(InvalidArgumentException.class, () -> choose(ALL, "=eth7", ""));
    assertTrue(wrong.getMessage().contains("NCCL_SOCKET_IFNAME==eth7"), wrong.getMessage());
    assertTrue(wrong.getMessage().contains("eth0, eth1"), wrong.getMessage());
    InvalidArgumentException family =
        assertThrows(InvalidArgumentException.class, () -> choose(ALL, "eth1", "AF_INET6"));
    assertTrue(family.getMessage().contains("of family AF_INET6"), family.getMessage());
    assertThrows(SystemErrorException.class, () -> choose(List.of(BARE), "", ""));
  }

  @Test
  void interfacesAreSelectedByNcclsSyntax() {
    assertTrue(LocalAddresses.matches("eth,ib", "eth0"));
    assertTrue(LocalAddresses.matches("eth,ib", "ib1"));
    assertFalse(LocalAddresses.matches("eth,ib", "lo"));
    assertTrue(LocalAddresses.matches("=eth1,eth2", "eth1"));
    assertFalse(LocalAddresses.matches("=eth1", "eth11"));
    assertTrue(LocalAddresses.matches("^docker,lo", "eth0"));
    assertFalse(LocalAddresses.matches("^docker,lo", "docker0"));
    assertTrue(LocalAddresses.matches("^=docker0", "docker01"));
  }

  private static List<InetAddress> choose(List<Candidate> up, String interfaces, String family) {
    return LocalAddresses.choose(up, options(interfaces, family));
  }

  private static List<InetAddress> forOthers(
      String toRoot, List<InetAddress> chosen, String interfaces) {
    return LocalAddresses.forOthers(address(toRoot), chosen, options(interfaces, ""));
  }

  private static BootstrapOptions options(String interfaces, String family) {
    return new BootstrapOptions("", "", interfaces, family, PortRange.ANY);
  }

  private static Candidate candidate(String name, boolean loopback, String... addresses) {
    return new Candidate(name, loopback, addresses(addresses));
  }

  private static List<InetAddress> addresses(String... all) {
    return Arrays.stream(all).map(LocalAddressesTest::address).toList();
  }

  private static InetAddress address(String text) {
    try {
      return InetAddress.getByName(text);
    } catch (UnknownHostException e) {
      throw new IllegalArgumentException(e);
    }
  }
}
