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
    int[] numbers = all(ConfigField.UNDEFINED);
    numbers[ConfigField.CTA_POLICY.ordinal()] = value;
    return Config.of(numbers, new String[2]).communicator().settings().get("NCCL_CTA_POLICY");
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
