package org.nccl4j.api.settings;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.spi.Setting;
import org.nccl4j.api.wire.PortRange;
import org.nccl4j.device.DataType;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.os.IoErrorText;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopoSetting;
import org.nccl4j.topo.TopoSettings;

class SettingsTest {
  @TempDir Path folder;

  @Test
  void theStrongestOriginWins() throws IOException {
    Path user = file("user", "# a comment\nNCCL_ALGO = user\nNCCL_PROTO=user\nNCCL_HOSTID=user\n");
    Path system = file("system", "NCCL_HOSTID=system\nNCCL_DEBUG_SUBSYS=system\nno line\n");
    Environment environment =
        Environment.of(
            Map.of("NCCL_ALGO", "override"),
            Map.of("NCCL_ALGO", "property", "NCCL_PROTO", "property"),
            Map.of("NCCL_PROTO", "environment", "NCCL_SOCKET_IFNAME", "environment", "HOME", "x"),
            user,
            system);
    assertEquals(
        Map.of(
            "NCCL_ALGO", new Environment.Value("override", "the communicator's configuration"),
            "NCCL_PROTO", new Environment.Value("property", "system property"),
            "NCCL_SOCKET_IFNAME", new Environment.Value("environment", "environment"),
            "NCCL_HOSTID", new Environment.Value("user", user.toString()),
            "NCCL_DEBUG_SUBSYS", new Environment.Value("system", system.toString())),
        environment.all());
  }

  @Test
  void linesThatSayNothingAreTold() throws IOException {
    Path named =
        file(
            "named",
            "# a comment\n\n  # too\nNCCL_ALGO\nexport NCCL_PROTO=LL\nNCCL_DEBUG = INFO\n");
    Map<String, String> naming = Map.of("NCCL_CONF_FILE", named.toString());
    Path none = folder.resolve("none");
    Environment environment = Environment.of(Map.of(), Map.of(), naming, none, none);
    assertEquals("INFO", environment.find("NCCL_DEBUG").orElseThrow().text());
    assertTrue(environment.find("NCCL_PROTO").isEmpty());
    List<String> hints = new Settings(environment).hints();
    assertEquals(
        List.of(
            "line 4 of "
                + named
                + " is ignored, and 1 more: write NAME=VALUE, or # in front of a"
                + " comment"),
        hints);
    Files.write(named, new byte[] {'N', 0, '=', 'x', '\n'});
    InvalidArgumentException failure =
        assertThrows(
            InvalidArgumentException.class,
            () -> Environment.of(Map.of(), Map.of(), naming, none, none));
    assertTrue(failure.problem().endsWith("it is not a text file"), failure.problem());
  }

  @Test
  void aFileToWriteNeedsItsFolder() {
    Path file = folder.resolve("none").resolve("f");
    InvalidArgumentException failure =
        assertThrows(
            InvalidArgumentException.class,
            () -> SettingFile.requireWritable(DebugSettings.NCCL4J_FLIGHT_FILE, "none/f", file));
    assertEquals(
        "NCCL4J_FLIGHT_FILE=none/f cannot be written (there is no folder " + file.getParent() + ")",
        failure.problem());
    assertEquals(
        "there is no folder " + file.getParent(),
        IoErrorText.of(new NoSuchFileException(file.toString())));
    SettingFile.requireWritable(DebugSettings.NCCL4J_FLIGHT_FILE, "f", folder.resolve("f"));
  }

  @Test
  void quotesAroundAValueInAFileAreRemoved() throws IOException {
    Path user =
        file("user", "NCCL_P2P_DISABLE=\"1\"\nNCCL_NET='IB'\nNCCL_HOSTID=\"a\nNCCL_ALGO=\"\"");
    Environment environment =
        Environment.of(Map.of(), Map.of(), Map.of(), user, folder.resolve("none"));
    Settings settings = new Settings(environment);
    assertTrue(settings.get(Settings.NCCL_P2P_DISABLE));
    assertEquals("IB", settings.get(Settings.NCCL_NET));
    assertEquals("\"a", settings.get(Settings.NCCL_HOSTID));
    assertFalse(settings.isSet(Settings.NCCL_ALGO));
  }

  @Test
  void aNamedFileStandsForTheUsers() throws IOException {
    Path user = file("user", "NCCL_ALGO=user\n");
    Path named = file("named", "NCCL_ALGO=named\n");
    Path none = folder.resolve("none");
    Map<String, String> naming = Map.of("NCCL_CONF_FILE", named.toString());
    Environment environment = Environment.of(Map.of(), Map.of(), naming, user, none);
    assertEquals("named", environment.find("NCCL_ALGO").orElseThrow().text());
    Map<String, String> wrong = Map.of("NCCL_CONF_FILE", none.toString());
    InvalidArgumentException failure =
        assertThrows(
            InvalidArgumentException.class,
            () -> Environment.of(Map.of(), wrong, Map.of(), user, none));
    assertTrue(failure.problem().contains(none + ", named by NCCL_CONF_FILE (system property)"));
  }

  @Test
  void aSystemPropertyOfThisProcessIsSeen() {
    System.setProperty("NCCL4J_TIMEOUT", "1234ms");
    try {
      Settings settings = Settings.ofProcess(Map.of());
      assertEquals(Duration.ofMillis(1234), settings.get(Settings.NCCL4J_TIMEOUT));
      assertTrue(settings.isSet(Settings.NCCL4J_TIMEOUT));
      settings = Settings.ofProcess(Map.of("NCCL4J_TIMEOUT", "2m"));
      assertEquals(Duration.ofMinutes(2), settings.get(Settings.NCCL4J_TIMEOUT));
    } finally {
      System.clearProperty("NCCL4J_TIMEOUT");
    }
  }

  /** A duration as shown can be set again. */
  @Test
  void durationsAreShownAsTheyAreSet() {
    for (Setting<?> setting : Settings.declared()) {
      if (setting.defaultValue() instanceof Duration) {
        Settings same = Settings.ofProcess(Map.of(setting.name(), setting.defaultText()));
        assertEquals(setting.defaultValue(), same.get(setting), setting.name());
      }
    }
    assertEquals("1m", Settings.NCCL4J_INIT_TIMEOUT.defaultText());
  }

  @Test
  void valuesOfEveryType() {
    assertEquals(Duration.ofSeconds(7), with("NCCL4J_TIMEOUT", "7").get(Settings.NCCL4J_TIMEOUT));
    assertEquals(Duration.ofHours(1), with("NCCL4J_TIMEOUT", "1 h").get(Settings.NCCL4J_TIMEOUT));
    for (String year : List.of("31536000000ms", "31536000", "525600m", "525600 min", "8760h")) {
      assertEquals(
          Duration.ofDays(365), with("NCCL4J_TIMEOUT", year).get(Settings.NCCL4J_TIMEOUT), year);
    }
    assertTrue(with("NCCL_SHM_DISABLE", "1").get(Settings.NCCL_SHM_DISABLE));
    assertFalse(with("NCCL_SHM_DISABLE", "off").get(Settings.NCCL_SHM_DISABLE));
    assertFalse(with("NCCL_SHM_DISABLE", "  ").get(Settings.NCCL_SHM_DISABLE));
    assertEquals("devshm", with("NCCL4J_SHM", "DevShm").get(Settings.NCCL4J_SHM));
    assertEquals("/mnt/Mem", with("NCCL4J_SHM", "/mnt/Mem").get(Settings.NCCL4J_SHM));
    assertEquals(
        new PortRange(29500, 29600),
        with("NCCL4J_BOOTSTRAP_PORTS", "29500-29600").get(Settings.NCCL4J_BOOTSTRAP_PORTS));
    assertEquals(PortRange.ANY, with("NCCL_ALGO", "Ring").get(Settings.NCCL4J_BOOTSTRAP_PORTS));
  }

  @Test
  void kernelsOfAllTypesArePreloadedUnlessTypesAreNamed() {
    assertEquals(Set.of(), preloaded("none"));
    assertEquals(Set.of(DataType.values()), preloaded("all"));
    assertEquals(Set.of(DataType.FLOAT32, DataType.BFLOAT16), preloaded("Float, bfloat16"));
    Settings wrong = with("NCCL4J_PRELOAD_KERNELS", "float,float33");
    var error =
        assertThrows(
            InvalidArgumentException.class, () -> wrong.get(GpuSettings.NCCL4J_PRELOAD_KERNELS));
    assertTrue(error.remedy().contains("none, all, or types"), error.remedy());
  }

  private Set<DataType> preloaded(String text) {
    return with("NCCL4J_PRELOAD_KERNELS", text).get(GpuSettings.NCCL4J_PRELOAD_KERNELS).types();
  }

  /** Transports and the topology read texts, the engine reads values. */
  @Test
  void aFlagMeansTheSameToWhoeverReadsIt() {
    for (String on : List.of("1", "true", "YES", "on")) {
      assertEquals("1", with("NCCL_P2P_DISABLE", on).texts().get("NCCL_P2P_DISABLE"), on);
      assertEquals("1", with("NCCL_P2P_DISABLE", on).setting("NCCL_P2P_DISABLE").orElseThrow(), on);
    }
    for (String off : List.of("0", "False", "no", "off")) {
      assertEquals("0", with("NCCL_SHM_DISABLE", off).texts().get("NCCL_SHM_DISABLE"), off);
    }
    assertThrows(InvalidArgumentException.class, with("NCCL_P2P_DISABLE", "maybe")::texts);
    assertEquals("Ring", with("NCCL_ALGO", "Ring").setting("NCCL_ALGO").orElseThrow());
  }

  @Test
  void aSecretIsNotShown() {
    String shown =
        Settings.shown(Map.of("NCCL4J_COMM_SECRET", "hush", "NCCL_ALGO", "Ring")).toString();
    assertEquals("{NCCL4J_COMM_SECRET=***, NCCL_ALGO=Ring}", shown);
  }

  @Test
  void namesOfFilesThatCannotBeReadAreRefused() throws IOException {
    Path none = folder.resolve("none");
    for (String wrong : List.of("/dev/zero", folder.toString(), none.toString(), "a\0b")) {
      InvalidArgumentException failure =
          assertThrows(
              InvalidArgumentException.class,
              () -> Environment.of(Map.of("NCCL_CONF_FILE", wrong), Map.of(), Map.of(), none, none),
              wrong);
      assertTrue(failure.problem().contains("NCCL_CONF_FILE"), failure.problem());
      InvalidArgumentException other =
          assertThrows(
              InvalidArgumentException.class,
              () -> SettingFile.readable(Settings.NCCL_TOPO_FILE, wrong));
      assertTrue(other.problem().contains("NCCL_TOPO_FILE=" + wrong), other.problem());
    }
    Environment.of(Map.of("NCCL_CONF_FILE", "/dev/null"), Map.of(), Map.of(), none, none);
    Path file = file("topo", "<system/>");
    assertEquals(file, SettingFile.readable(Settings.NCCL_TOPO_FILE, file.toString()));
  }

  @Test
  void aWrongValueIsNamedWithItsOriginAndWhatIsAllowed() {
    Map<Setting<?>, List<String>> wrong =
        Map.of(
            Settings.NCCL4J_TIMEOUT,
                List.of(
                    "x",
                    "0",
                    "0h",
                    "-1",
                    "1 year",
                    "366d",
                    "8761h",
                    "31536000001ms",
                    "9999999999999999999",
                    Long.MAX_VALUE + "ms",
                    Long.MAX_VALUE + "s",
                    Long.MAX_VALUE + "m",
                    Long.MAX_VALUE + "h",
                    "9223372036854775808h"),
            Settings.NCCL_SHM_DISABLE, List.of("2", "maybe"),
            Settings.NCCL_WIN_STRIDE, List.of("K", "-1", "1Q"),
            Settings.NCCL_CHECK_MODE, List.of("FULL"),
            Settings.NCCL4J_BOOTSTRAP_PORTS, List.of("5-4", "70000", "0-9", "a", "1-", "-1"));
    wrong.forEach(
        (setting, texts) -> {
          for (String text : texts) {
            Settings settings = with(setting.name(), text);
            InvalidArgumentException failure =
                assertThrows(InvalidArgumentException.class, () -> settings.get(setting), text);
            assertTrue(failure.problem().contains(setting.name()), failure.problem());
            assertTrue(failure.problem().contains("\"" + text + "\" (environment)"));
            assertTrue(failure.remedy().contains(setting.allowed()), failure.remedy());
          }
        });
  }

  @Test
  void everySettingIsListedOnceWithItsOrigin() {
    Settings settings = with("NCCL4J_COMM_SECRET", "hush");
    Set<String> names = new HashSet<>();
    for (Settings.Entry entry : settings.entries()) {
      assertTrue(names.add(entry.setting().name()));
      assertTrue(entry.setting().sentence().endsWith("."), entry.setting().name());
      assertFalse(entry.value().contains("hush"), entry.toString());
      boolean set = entry.setting() == Settings.NCCL4J_COMM_SECRET;
      assertEquals(set ? "environment" : "default", entry.origin());
    }
    assertEquals(Settings.declared().size(), names.size());
    Set<String> declared = new HashSet<>(constants());
    TopoSettings.all().forEach(setting -> declared.add(setting.name()));
    assertEquals(declared, names);
  }

  @Test
  void settingsOfTheTopologyAreDeclaredWithTheSameDefault() throws IllegalAccessException {
    int compared = 0;
    for (Field field : TopoSettings.class.getFields()) {
      if (field.get(null) instanceof TopoSetting<?> setting) {
        Setting<?> declared =
            Settings.declared().stream()
                .filter(each -> each.name().equals(setting.name()))
                .findFirst()
                .orElseThrow(() -> new AssertionError(setting.name()));
        assertEquals(field.getName(), setting.name());
        assertEquals(setting.defaultValue(), declared.defaultValue(), setting.name());
        compared++;
      }
    }
    assertTrue(compared > 40, compared + " settings");
  }

  @Test
  void theTopologyGetsTheValuesThatTransportsGet() {
    Settings settings = with("NCCL_P2P_DISABLE", "true");
    assertTrue(settings.get(Settings.NCCL_P2P_DISABLE));
    assertEquals(PathType.LOC, settings.topology().p2pLevel().orElseThrow());
    assertTrue(with("NCCL_SHM_DISABLE", "yes").topology().shmDisabled());
    assertEquals(1, with("NCCL_CROSS_NIC", "0x1").topology().crossNic());
    Settings wrong = with("NCCL_CROSS_NIC", "always");
    InvalidArgumentException failure =
        assertThrows(InvalidArgumentException.class, wrong::topology);
    assertTrue(failure.problem().contains("NCCL_CROSS_NIC is \"always\" (environment)"));
  }

  @Test
  void namesThatAreNearlyRightGetAHint() {
    List<String> hints = with("NCCL_SOCKET_IFNAMES", "eth").hints();
    assertEquals(
        List.of(
            "NCCL_SOCKET_IFNAMES (environment) is not a setting; did you mean NCCL_SOCKET_IFNAME?"),
        hints);
    for (String near :
        List.of("NCCL_AGLO", "NCCL_DEBGU", "NCCL_NETS", "NCCL_COMMID", "NCCL_PRTO")) {
      assertEquals(1, with(near, "x").hints().size(), near);
    }
    assertEquals(
        List.of("NCCL_FOO (environment) is not a setting of nccl4j or of NCCL 2.30.7"),
        with("NCCL_FOO", "1").hints());
    assertEquals(List.of(), with("NCCL_IB_HCA", "mlx5").hints());
    // NCCL's name.
    assertEquals(List.of(), with("NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY", "5").hints());
    assertEquals(List.of(), with("NCCL_ALGO", "Ring").hints());
  }

  @Test
  void namesWithoutEffectAreToldOf() {
    assertEquals(
        List.of(
            "NCCL_RAS_ENABLE (environment) has no effect in nccl4j: ./nccl diagnose reads the"
                + " flight recorder; there is no service that listens."),
        with("NCCL_RAS_ENABLE", "1").hints());
    assertEquals(
        List.of("NCCL_P2P_MAX_PEERS (environment) affects only ./nccl topo"),
        with("NCCL_P2P_MAX_PEERS", "1").hints());
    for (String ofNccl :
        List.of(
            "NCCL_IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX",
            "NCCL_IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT")) {
      assertTrue(with(ofNccl, "5").hints().get(0).contains("has no effect in nccl4j"), ofNccl);
    }
    for (String ofOthers : List.of("NCCL_VERSION", "NCCL4J_RANK", "NCCL_TESTS_DEVICE")) {
      assertEquals(List.of(), with(ofOthers, "1").hints(), ofOthers);
    }
  }

  @Test
  void otherVariablesAreNoSettings() {
    Set<String> others = Settings.otherVariables().keySet();
    assertEquals(
        List.of(),
        Settings.declared().stream().map(Setting::name).filter(others::contains).toList());
    assertTrue(others.size() > 100, others.toString());
    Settings.otherVariables()
        .forEach((name, instead) -> assertTrue(instead.endsWith("."), name + ": " + instead));
  }

  @Test
  void distanceIsLevenshteins() {
    assertEquals(0, SettingHints.distance("", ""));
    assertEquals(3, SettingHints.distance("", "abc"));
    assertEquals(3, SettingHints.distance("kitten", "sitting"));
    assertEquals(1, SettingHints.distance("ab", "b"));
  }

  private static Set<String> constants() {
    Set<String> names = new HashSet<>();
    List<Class<?>> all =
        List.of(
            Settings.class,
            PlanSettings.class,
            GpuSettings.class,
            ScaleSettings.class,
            TlsSettings.class,
            DebugSettings.class,
            DropInSettings.class,
            InfiniBandSettings.class);
    for (Class<?> declaring : all) {
      for (Field field : declaring.getDeclaredFields()) {
        if (field.getType() == Setting.class) {
          names.add(field.getName());
        }
      }
    }
    return names;
  }

  private Settings with(String name, String value) {
    Path none = folder.resolve("none");
    return new Settings(Environment.of(Map.of(), Map.of(), Map.of(name, value), none, none));
  }

  private Path file(String name, String content) throws IOException {
    return Files.writeString(folder.resolve(name), content);
  }

  @Test
  void subsystemsAreNamedOrExcluded() {
    assertTrue(with("NCCL_DEBUG", "INFO").get(DebugSettings.NCCL_DEBUG_SUBSYS).logAny("INIT"));
    assertFalse(
        with("NCCL_DEBUG", "INFO").get(DebugSettings.NCCL_DEBUG_SUBSYS).logAny("NET", "GRAPH"));
    Subsystems some = with("NCCL_DEBUG_SUBSYS", "net, GRAPH").get(DebugSettings.NCCL_DEBUG_SUBSYS);
    assertEquals("GRAPH,NET", some.toString());
    assertFalse(some.logAny("INIT"));
    Subsystems most = with("NCCL_DEBUG_SUBSYS", "^INIT,NET").get(DebugSettings.NCCL_DEBUG_SUBSYS);
    assertTrue(most.logAny("GRAPH"));
    assertFalse(most.logAny("INIT", "NET"));
    assertTrue(with("NCCL_DEBUG_SUBSYS", "ALL").get(DebugSettings.NCCL_DEBUG_SUBSYS).logAny("RAS"));
    InvalidArgumentException e =
        assertThrows(
            InvalidArgumentException.class,
            () -> with("NCCL_DEBUG_SUBSYS", "INIT,NETS").get(DebugSettings.NCCL_DEBUG_SUBSYS));
    assertTrue(e.getMessage().contains("INIT,NETS"), e.getMessage());
  }
}
