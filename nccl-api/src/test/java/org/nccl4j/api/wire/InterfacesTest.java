package org.nccl4j.api.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.InetAddress;
import java.net.SocketException;
import java.net.UnknownHostException;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.wire.Interfaces.Candidate;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.SystemErrorException;

class InterfacesTest {
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
  void rejectedInterfacesHaveTheirReason() {
    Candidate down = new Candidate("eth2", false, false, addresses("10.2.0.1"));
    Candidate veth = candidate("veth1", false, "10.3.0.1");
    List<String> reasons =
        Interfaces.among(List.of(ETH0, BARE, down, veth), new InterfaceFilter("", "")).rejected();
    assertEquals(
        List.of("ib0 (no address)", "eth2 (down)", "veth1 (does not lead to other hosts)"),
        reasons);
    assertEquals(
        List.of("eth0 (NCCL_SOCKET_IFNAME=ib)", "ib0 (no address of family AF_INET6)"),
        Interfaces.among(List.of(ETH0, BARE), new InterfaceFilter("ib", "af_inet6")).rejected());
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
  void anInterfaceThatVanishesMeanwhileIsLeftOut() {
    Interfaces.Listed gone =
        () -> {
          throw new SocketException("No such device");
        };
    assertEquals(List.of(LO, ETH0), Interfaces.read(List.of(() -> LO, gone, () -> ETH0)));
  }

  @Test
  void interfacesAreSelectedByNcclsSyntax() {
    assertTrue(matches("eth,ib", "eth0"));
    assertTrue(matches("eth,ib", "ib1"));
    assertFalse(matches("eth,ib", "lo"));
    assertTrue(matches("=eth1,eth2", "eth1"));
    assertFalse(matches("=eth1", "eth11"));
    assertTrue(matches("^docker,lo", "eth0"));
    assertFalse(matches("^docker,lo", "docker0"));
    assertTrue(matches("^=docker0", "docker01"));
    assertTrue(matches(" eth0 , ib", "ib0"));
    assertTrue(matches(" ", "eth0"));
  }

  private static List<InetAddress> choose(List<Candidate> up, String interfaces, String family) {
    return Interfaces.among(up, new InterfaceFilter(interfaces, family)).addresses(4);
  }

  private static boolean matches(String selector, String name) {
    return new InterfaceFilter(selector, "").allows(name);
  }

  private static Candidate candidate(String name, boolean loopback, String... addresses) {
    return new Candidate(name, true, loopback, addresses(addresses));
  }

  private static List<InetAddress> addresses(String... all) {
    return Arrays.stream(all).map(InterfacesTest::address).toList();
  }

  private static InetAddress address(String text) {
    try {
      return InetAddress.getByName(text);
    } catch (UnknownHostException e) {
      throw new IllegalArgumentException(e);
    }
  }
}
