package org.nccl4j.it.abi;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.InvalidArgumentException;

class ConfigTest {
  private static final Map<String, String> USERS =
      Map.of(
          "NCCL_COMM_BLOCKING", "0",
          "NCCL_CGA_CLUSTER_SIZE", "2",
          "NCCL_MIN_CTAS", "2",
          "NCCL_MAX_CTAS", "2",
          "NCCL_IB_TC", "2",
          "NCCL_CTA_POLICY", "2",
          "NCCL_NVLS_NCHANNELS", "2",
          "NCCL_NCHANNELS_PER_NET_PEER", "2",
          "NCCL_NET", "IB");

  /** The setting of a configuration with a CTAPolicy. */
  private static String policy(int value) {
    return setting(ConfigField.CTA_POLICY, value);
  }

  /** The setting of a configuration with one field. */
  private static String setting(ConfigField field, int value) {
    return Config.of(with(field, value), new String[2])
        .communicator()
        .settings()
        .get(field.setting().name());
  }

  private static int[] with(ConfigField field, int value) {
    int[] numbers = all(ConfigField.UNDEFINED);
    numbers[field.ordinal()] = value;
    return numbers;
  }

  private static int[] all(int value) {
    int[] numbers = new int[ConfigField.values().length];
    Arrays.fill(numbers, value);
    return numbers;
  }

  @Test
  void theProgramDecidesWhatTheUserHasNotSet() {
    Config config = Config.of(all(1), new String[] {"Socket", null}, Settings.alone(Map.of()));
    assertTrue(config.blocking());
    Set<String> names = new TreeSet<>(USERS.keySet());
    names.remove("NCCL_COMM_BLOCKING");
    names.removeAll(config.communicator().settings().keySet());
    assertEquals(Set.of(), names);
  }

  /** As in NCCL, where the environment overrides an ncclConfig_t. */
  @Test
  void theUserDecidesBeforeTheProgram() {
    Config config = Config.of(all(1), new String[] {"Socket", null}, Settings.alone(USERS));
    assertFalse(config.blocking());
    Set<String> names = new TreeSet<>(USERS.keySet());
    names.retainAll(config.communicator().settings().keySet());
    assertEquals(Set.of(), names);
    assertFalse(Config.of(null, new String[2], Settings.alone(USERS)).blocking());
  }

  @Test
  void aChildWithoutAConfigurationHasItsParentsMode() {
    Config parent = new Config(/* blocking= */ false, CommunicatorConfig.defaults());
    assertFalse(Config.of(null, new String[2], parent).blocking());
    assertTrue(Config.of(all(ConfigField.UNDEFINED), new String[2], parent).blocking());
  }

  /** A setting that its configuration does not have would be its parent's. */
  @Test
  void undefinedFieldsOfAChildHaveTheirDefaults() {
    Config grandparent = Config.of(all(1), new String[] {null, "old"});
    Config parent = Config.of(null, new String[2], grandparent);
    assertEquals("1", parent.communicator().settings().get("NCCL_MAX_CTAS"));
    assertEquals("", parent.communicator().name());
    Map<String, String> child =
        Config.of(with(ConfigField.CGA_CLUSTER_SIZE, 4), new String[2], parent)
            .communicator()
            .settings();
    assertEquals("4", child.get("NCCL_CGA_CLUSTER_SIZE"));
    assertEquals("1", child.get("NCCL_MIN_CTAS"));
    assertEquals("64", child.get("NCCL_MAX_CTAS"));
    assertEquals("-1", child.get("NCCL_IB_TC"));
    assertEquals("0", child.get("NCCL_CTA_POLICY"));
    assertEquals("0", child.get("NCCL_NVLS_NCHANNELS"));
    assertEquals("0", child.get("NCCL_NCHANNELS_PER_NET_PEER"));
  }

  @Test
  void fieldsAreBoundedAsInNccl() {
    assertEquals("8", setting(ConfigField.CGA_CLUSTER_SIZE, 16));
    assertEquals("64", setting(ConfigField.MIN_CTAS, 200));
    assertEquals("64", setting(ConfigField.MAX_CTAS, 100_000));
    assertEquals("64", setting(ConfigField.NVLS_CTAS, 128));
    assertEquals("64", setting(ConfigField.CHANNELS_PER_NET_PEER, 65));
    assertEquals("44", setting(ConfigField.TRAFFIC_CLASS, 300));
    assertEquals("-1", setting(ConfigField.TRAFFIC_CLASS, -1));
  }

  @ParameterizedTest
  @CsvSource({
    "CGA_CLUSTER_SIZE,-1,cgaClusterSize",
    "MIN_CTAS,0,minCTAs",
    "MAX_CTAS,-5,maxCTAs",
    "NVLS_CTAS,0,nvlsCTAs",
    "CHANNELS_PER_NET_PEER,0,nChannelsPerNetPeer"
  })
  void valuesBelowTheLeastAreRefused(ConfigField field, int value, String name) {
    InvalidArgumentException refusal =
        assertThrows(InvalidArgumentException.class, () -> setting(field, value));
    assertEquals(name + " of a configuration is " + value, refusal.problem());
  }

  @Test
  void fewestCtasAboveTheMostAreRefused() {
    int[] numbers = with(ConfigField.MIN_CTAS, 8);
    numbers[ConfigField.MAX_CTAS.ordinal()] = 4;
    InvalidArgumentException refusal =
        assertThrows(InvalidArgumentException.class, () -> Config.of(numbers, new String[2]));
    assertTrue(refusal.problem().contains("maxCTAs 4"));
  }

  /** NCCL_CTA_POLICY_EFFICIENCY is 1, NCCL_CTA_POLICY_ZERO 2, and a program may set both. */
  @ParameterizedTest
  @ValueSource(ints = {0, 1, 2, 3})
  void thePolicyOfCtasIsASetOfBits(int bits) {
    assertEquals(Integer.toString(bits), policy(bits));
  }

  @Test
  void aPolicyThatIsNotSetIsTheUsers() {
    assertNull(policy(ConfigField.UNDEFINED));
  }

  @ParameterizedTest
  @ValueSource(ints = {-1, 4, 7})
  void otherPoliciesAreRefused(int bits) {
    InvalidArgumentException refusal =
        assertThrows(InvalidArgumentException.class, () -> policy(bits));
    assertTrue(refusal.problem().contains("CTAPolicy of a configuration is " + bits));
  }
}
