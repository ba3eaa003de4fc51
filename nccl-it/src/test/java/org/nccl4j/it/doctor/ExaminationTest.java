package org.nccl4j.it.doctor;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

class ExaminationTest {
  /** The host device has no driver that could hang. */
  @Test
  void aLateHostDeviceLeavesTheConclusionOpen() {
    Finding late = Examination.late(DeviceExaminations.HOST, "did not answer within 20 s");
    assertEquals(Finding.Status.WARN, late.status());
    assertTrue(late.detail().contains("the machine may be busy"), late.detail());
    assertTrue(late.fix().contains("again"), late.fix());
    String last = DoctorCommand.conclusion(List.of(late));
    assertTrue(last.startsWith("It is unknown whether communicators work here"), last);
  }

  @Test
  void anythingElseThatIsLateMayHang() {
    Finding late = Examination.late("cuda", "did not answer within 20 s");
    assertTrue(late.fix().contains("dmesg"), late.fix());
    List<Finding> all = List.of(Finding.ok(DeviceExaminations.HOST, "works"), late);
    String last = DoctorCommand.conclusion(all);
    assertTrue(last.startsWith("Communicators of the host device work here"), last);
  }
}
