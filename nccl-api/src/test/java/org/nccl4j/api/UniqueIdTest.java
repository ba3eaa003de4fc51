package org.nccl4j.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.bootstrap.BootstrapId;
import org.nccl4j.api.bootstrap.BootstrapOptions;
import org.nccl4j.api.bootstrap.JoinRequest;
import org.nccl4j.api.bootstrap.TcpBootstrap;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.SystemErrorException;

class UniqueIdTest {
  private static final CommunicatorConfig FIXED =
      CommunicatorConfig.defaults().with("NCCL_COMM_ID", "10.0.0.1:29500");

  @Test
  void aNewIdLeadsToARootThatAnswers() {
    UniqueId id = UniqueId.create();
    assertTrue(id.toBytes().length <= 128);
    JoinRequest request =
        new JoinRequest(
            1,
            BootstrapId.decode(id.toBytes()),
            0,
            Duration.ofSeconds(30),
            BootstrapOptions.from(Settings.ofProcess(Map.of())));
    try (Bootstrap alone = TcpBootstrap.join(request)) {
      assertEquals(1, alone.allGather(new byte[3]).size());
      alone.barrier();
      assertEquals(16, alone.secret().length);
    }
    assertThrows(SystemErrorException.class, () -> TcpBootstrap.join(request));
  }

  @Test
  void anIdFromTheSettingIsTheSameEverywhere() {
    assertEquals(UniqueId.create(FIXED), UniqueId.create(FIXED));
    UniqueId withSecret = UniqueId.create(FIXED.with("NCCL4J_COMM_SECRET", "hush"));
    assertNotEquals(UniqueId.create(FIXED), withSecret);
  }

  @Test
  void survivesBytesAndText() {
    UniqueId id = UniqueId.create(FIXED);
    assertEquals(id, UniqueId.fromBytes(id.toBytes()));
    assertEquals(id, UniqueId.parse(id.toString()));
    assertEquals(id.hashCode(), UniqueId.parse(id.toString()).hashCode());
    assertTrue(id.toString().matches("[0-9a-f]+"));
  }

  @Test
  void whatIsNoIdIsRefused() {
    for (String text : List.of("", "hello")) {
      InvalidArgumentException e =
          assertThrows(InvalidArgumentException.class, () -> UniqueId.parse(text));
      assertTrue(
          e.problem()
              .contains(
                  "this text is not a unique id: it has " + text.length() + " characters, not"),
          e.problem());
      assertTrue(e.remedy().contains("toString()"), e.remedy());
    }
    InvalidArgumentException cut =
        assertThrows(InvalidArgumentException.class, () -> UniqueId.parse("0".repeat(101)));
    assertTrue(cut.problem().endsWith("101 characters, an odd number; a part is missing"));
    InvalidArgumentException other =
        assertThrows(InvalidArgumentException.class, () -> UniqueId.parse("x".repeat(100)));
    assertTrue(other.problem().endsWith("bytes in hexadecimal"), other.problem());
    assertThrows(InvalidArgumentException.class, () -> UniqueId.fromBytes(new byte[128]));
    assertThrows(InvalidArgumentException.class, () -> UniqueId.fromBytes(new byte[1000]));
    assertThrows(
        InvalidArgumentException.class,
        () -> UniqueId.create(CommunicatorConfig.defaults().with("NCCL_COMM_ID", "nonsense")));
  }
}
