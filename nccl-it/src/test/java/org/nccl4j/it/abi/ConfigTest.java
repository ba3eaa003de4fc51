package org.nccl4j.it.abi;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.InvalidArgumentException;

class ConfigTest {
  /** The setting of a configuration with a CTAPolicy. */
  private static String policy(int value) {
    int[] numbers = new int[ConfigField.values().length];
    Arrays.fill(numbers, ConfigField.UNDEFINED);
    numbers[ConfigField.CTA_POLICY.ordinal()] = value;
    return Config.of(numbers, new String[2]).communicator().settings().get("NCCL_CTA_POLICY");
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
