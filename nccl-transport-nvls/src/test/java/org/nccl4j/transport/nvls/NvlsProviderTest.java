package org.nccl4j.transport.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.ServiceLoader;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.multicast.MulticastProvider;
import org.nccl4j.api.multicast.MulticastProvider.Offer;
import org.nccl4j.device.Device;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.kernel.MulticastObject.Form;

/** A rank's offer by its settings and its device. */
class NvlsProviderTest {
  private final List<String> asked = new ArrayList<>();

  /** A GPU that answers for its kind and for the absence of multicast objects alone. */
  private Device gpu(String absence) {
    KernelDevice kernels =
        (KernelDevice)
            Proxy.newProxyInstance(
                NvlsProviderTest.class.getClassLoader(),
                new Class<?>[] {KernelDevice.class},
                (proxy, method, arguments) -> {
                  asked.add(method.getName());
                  if (!method.getName().equals("multicastAbsence")) {
                    throw new AssertionError(method.getName());
                  }
                  return absence;
                });
    return new FakeGpu(kernels);
  }

  /** The offer with settings NAME, VALUE, ... */
  private static Offer offer(Device device, String... settings) {
    Map<String, String> values = new HashMap<>();
    for (int i = 0; i < settings.length; i += 2) {
      values.put(settings[i], settings[i + 1]);
    }
    return new NvlsProvider().offer(device, name -> Optional.ofNullable(values.get(name)));
  }

  @Test
  void theServiceLoaderFindsIt() {
    getClass().getModule().addUses(MulticastProvider.class);
    assertEquals(
        List.of("NVLS"),
        ServiceLoader.load(MulticastProvider.class).stream()
            .map(each -> each.get().name())
            .toList());
  }

  @Test
  void gpusOfferTheSwitchUnaskedAndTheHostNothing() {
    for (String[] settings :
        new String[][] {
          {}, {"NCCL_NVLS_ENABLE", "2"}, {"NCCL_ALGO", "^Ring"}, {"NCCL4J_NVLS_MODE", "auto"}
        }) {
      Offer offer = offer(gpu(null), settings);
      assertEquals(Optional.of(Form.DRIVER), offer.form());
      assertFalse(offer.wanted(), "a machine without it is not worth a warning");
      assertFalse(offer(gpu("it has no switch"), settings).wanted());
      offer = offer(HostDevice.instance(), settings);
      assertEquals(Optional.empty(), offer.form());
      assertFalse(offer.wanted(), offer.reason());
    }
    assertTrue(offer(gpu("it has no switch"), "NCCL_NVLS_ENABLE", "1").wanted());
  }

  @Test
  void whatTheSettingsLeaveOutIsNotOffered() {
    for (String[] settings :
        new String[][] {
          {"NCCL_ALGO", "ring,tree"},
          {"NCCL_ALGO", "^NVLS"},
          {"NCCL4J_NVLS_MODE", "off"},
          {"NCCL_NVLS_ENABLE", "0"}
        }) {
      for (Device device : List.of(gpu(null), HostDevice.instance())) {
        Offer offer = offer(device, settings);
        assertEquals(Optional.empty(), offer.form());
        assertFalse(offer.wanted(), offer.reason());
      }
    }
    assertEquals(List.of(), asked);
  }

  @Test
  void whereAnAlgorithmIsNamedTheDeviceDecides() {
    for (String algorithm : List.of("NVLS", "nvls,ring", "allreduce:NVLSTree")) {
      assertEquals(
          Optional.of(Form.EMULATED), offer(HostDevice.instance(), "NCCL_ALGO", algorithm).form());
      assertEquals(Optional.of(Form.DRIVER), offer(gpu(null), "NCCL_ALGO", algorithm).form());
    }
  }

  @Test
  void anAbsenceIsTheReason() {
    Offer offer = offer(gpu("its driver is too old"), "NCCL_ALGO", "NVLS");
    assertEquals(new Offer(Optional.empty(), true, "its driver is too old"), offer);
    assertEquals(offer, offer(gpu("its driver is too old"), "NCCL4J_NVLS_MODE", "hardware"));
  }

  /** The device is not even asked whether its driver has multicast objects. */
  @Test
  void whereTheSwitchIsForbiddenTheDriverIsNotAsked() {
    for (String[] wish : new String[][] {{"NCCL_ALGO", "NVLS"}, {"NCCL4J_NVLS_MODE", "hardware"}}) {
      Offer offer = offer(gpu(null), "NCCL_NVLS_ENABLE", "0", wish[0], wish[1]);
      assertEquals(Optional.empty(), offer.form());
      assertTrue(offer.wanted());
      assertTrue(offer.reason().contains("NCCL_NVLS_ENABLE=0"), offer.reason());
    }
    assertFalse(asked.contains("multicastAbsence"), asked.toString());
  }

  @Test
  void theEmulationNeedsNoDriver() {
    Offer offer = offer(gpu(null), "NCCL4J_NVLS_MODE", "emulated", "NCCL_NVLS_ENABLE", "0");
    assertEquals(Optional.of(Form.EMULATED), offer.form());
    assertFalse(asked.contains("multicastAbsence"), asked.toString());
  }
}
