package org.nccl4j.device.cuda.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaDevices;
import org.nccl4j.device.cuda.FakeCuda;
import org.nccl4j.device.cuda.FakeLibrary;
import org.nccl4j.device.kernel.MulticastObject;
import org.nccl4j.device.kernel.MulticastObject.Form;
import org.nccl4j.device.shm.DuplicateFd;
import org.nccl4j.device.symmetric.ShareableMemory;

/**
 * Both forms of multicast objects of two GPUs against the recording fake of the driver, which knows
 * what must not be done before what: the order of the calls, their arguments, and that nothing is
 * left, whichever call fails.
 */
class MulticastTest {
  private static final int OUT_OF_MEMORY = 2;
  private static final int NOT_SUPPORTED = 801;
  private static final long BYTES = 5 << 20;

  private FakeLibrary fake;
  private long live;

  @BeforeEach
  void start() {
    fake = FakeCuda.get();
    CudaDevices.probe().list().forEach(device -> device.gpu().context());
    live = FakeCuda.live();
    fake.fakeReset();
  }

  @AfterEach
  void neverMisused() {
    if (fake != null) {
      assertFalse(fake.fakeRecord().contains("misuse"), fake.fakeRecord());
      fake.fakeReset();
    }
  }

  private static List<MulticastObject> members(Form form) {
    List<MulticastObject> members = new ArrayList<>();
    for (int member = 0; member < 2; member++) {
      CudaDevice device = CudaDevices.probe().device(member);
      members.add(device.multicast(form, new MulticastObject.Group(member, 2, BYTES)));
    }
    return members;
  }

  /** Objects of memory that the members have already. */
  private static List<MulticastObject> membersOf(List<ShareableMemory> memories) {
    List<MulticastObject> members = new ArrayList<>();
    long least = memories.stream().mapToLong(ShareableMemory::size).min().orElseThrow();
    for (int member = 0; member < 2; member++) {
      CudaDevice device = CudaDevices.probe().device(member);
      members.add(
          device.multicastOf(memories.get(member), new MulticastObject.Group(member, 2, least)));
    }
    return members;
  }

  /** Runs something on the exported memory of two GPUs, which it leaves as it was. */
  private void withMemories(long bytes, long otherBytes, Consumer<List<ShareableMemory>> what) {
    CudaDevice first = CudaDevices.probe().device(0);
    CudaDevice second = CudaDevices.probe().device(1);
    try (DeviceMemory one = first.memAlloc(bytes);
        DeviceMemory other = second.memAlloc(otherBytes)) {
      List<ShareableMemory> both =
          List.of(first.exportable(one).orElseThrow(), second.exportable(other).orElseThrow());
      what.accept(both);
      both.forEach(ShareableMemory::release);
    }
    assertEquals(live, FakeCuda.live());
  }

  /** All steps of all members, as ranks take them. */
  private static void make(List<MulticastObject> members) {
    members.forEach(MulticastObject::create);
    for (int to = 0; to < members.size(); to++) {
      for (int from = 0; from < members.size(); from++) {
        if (members.get(to).wants(from)) {
          members.get(to).accept(from, DuplicateFd.of(members.get(from).descriptor()));
        }
      }
    }
    members.forEach(MulticastObject::addDevice);
    members.forEach(MulticastObject::bind);
    members.forEach(MulticastObject::map);
  }

  private String calls() {
    return fake.fakeRecord()
        .lines()
        .filter(line -> line.startsWith("cuM") || line.contains("misuse"))
        .map(line -> line.replaceAll("(cuMemset.*),(?!0\\))[0-9a-f]+\\)", "$1,own)"))
        .map(line -> line.replaceAll("ShareableHandle\\([0-9]+,1\\)", "ShareableHandle(fd,1)"))
        .collect(Collectors.joining("\n"));
  }

  @Test
  void theDriversIsMadeAndUndoneInOrder() {
    List<MulticastObject> members = members(Form.DRIVER);
    make(members);
    String made =
        """
        cuMemGetAllocationGranularity(1,1,1,0,1)
        cuMulticastGetGranularity(2,5242880,1,0,0)
        cuMulticastCreate(2,6291456,1,0)
        cuMemExportToShareableHandle(1,0)
        cuMemGetAllocationGranularity(1,1,1,1,1)
        cuMulticastGetGranularity(2,5242880,1,0,0)
        cuMemImportFromShareableHandle(fd,1)
        cuMulticastAddDevice(0)
        cuMulticastAddDevice(1)
        """;
    for (int member = 0; member < 2; member++) {
      made +=
          """
          cuMemGetAllocationGranularity(1,1,1,%1$d,1)
          cuMemCreate(6291456,1,1,1,%1$d,0,0)
          cuMemGetAllocationGranularity(1,1,1,%1$d,1)
          cuMemAddressReserve(6291456,2097152,0,0)
          cuMemMap(6291456,0,0)
          cuMemSetAccess(6291456,1,%1$d,3,1)
          cuMemsetD8Async(0,6291456,own)
          cuMulticastBindMem(0,0,6291456,0)
          """
              .formatted(member);
    }
    for (int member = 0; member < 2; member++) {
      made +=
          """
          cuMemAddressReserve(6291456,2097152,0,0)
          cuMemMap(6291456,0,0)
          cuMemSetAccess(6291456,1,%d,3,1)
          """
              .formatted(member);
    }
    assertEquals(made.strip(), calls());
    for (MulticastObject member : members) {
      assertEquals(1, member.multicast().views().size());
      assertFalse(member.multicast().emulated());
      assertTrue(member.unicast().address() != member.multicast().views().get(0).address());
    }
    fake.fakeReset();
    members.forEach(MulticastObject::close);
    members.forEach(MulticastObject::close);
    String undone = "";
    for (int member = 0; member < 2; member++) {
      undone +=
          """
          cuMemUnmap(6291456)
          cuMemAddressFree(6291456)
          cuMulticastUnbind(%d,0,6291456)
          cuMemUnmap(6291456)
          cuMemAddressFree(6291456)
          cuMemRelease()
          cuMemRelease()
          """
              .formatted(member);
    }
    assertEquals(undone.strip(), calls());
    assertEquals(live, FakeCuda.live());
  }

  /** No memory is made, none is copied, and only what all have is bound. */
  @Test
  void usersMemoryIsBoundWhereItLies() {
    withMemories(
        8 << 20,
        5 << 20,
        memories -> {
          List<MulticastObject> members = membersOf(memories);
          fake.fakeReset();
          make(members);
          String made =
              """
              cuMulticastGetGranularity(2,6291456,1,0,0)
              cuMulticastCreate(2,6291456,1,0)
              cuMemExportToShareableHandle(1,0)
              cuMulticastGetGranularity(2,6291456,1,0,0)
              cuMemImportFromShareableHandle(fd,1)
              cuMulticastAddDevice(0)
              cuMulticastAddDevice(1)
              cuMemRetainAllocationHandle()
              cuMulticastBindAddr(0,6291456,0)
              cuMemRetainAllocationHandle()
              cuMulticastBindAddr(0,6291456,0)
              """;
          for (int member = 0; member < 2; member++) {
            made +=
                """
                cuMemAddressReserve(6291456,2097152,0,0)
                cuMemMap(6291456,0,0)
                cuMemSetAccess(6291456,1,%d,3,1)
                """
                    .formatted(member);
          }
          assertEquals(made.strip(), calls());
          for (int member = 0; member < 2; member++) {
            assertEquals(memories.get(member).address(), members.get(member).unicast().address());
            assertEquals(6 << 20, members.get(member).multicast().size());
          }
          fake.fakeReset();
          members.forEach(MulticastObject::close);
          String undone = "";
          for (int member = 0; member < 2; member++) {
            undone +=
                """
                cuMemUnmap(6291456)
                cuMemAddressFree(6291456)
                cuMulticastUnbind(%d,0,6291456)
                cuMemRelease()
                cuMemRelease()
                """
                    .formatted(member);
          }
          assertEquals(undone.strip(), calls());
        });
  }

  @Test
  void whicheverCallFailsUsersMemoryIsLeftAsItWas() {
    withMemories(
        4 << 20,
        4 << 20,
        memories -> {
          long before = FakeCuda.live();
          int failed = 0;
          boolean made = false;
          for (int nth = 1; !made; nth++) {
            fake.fakeReset();
            fake.fakeFailNth(nth, OUT_OF_MEMORY);
            List<MulticastObject> members = membersOf(memories);
            try {
              make(members);
              made = true;
            } catch (NcclException e) {
              failed++;
            }
            fake.fakeFailNth(0, 0);
            members.forEach(MulticastObject::close);
            assertEquals(before, FakeCuda.live(), "after call %d had failed".formatted(nth));
            assertFalse(fake.fakeRecord().contains("misuse"), fake.fakeRecord());
          }
          assertEquals(17, failed);
        });
  }

  /** Asked of the driver, not assumed; before anything is made. */
  @Test
  void memoryThatTheDriverCouldNotBindIsNamed() {
    withMemories(
        4 << 20,
        4 << 20,
        memories -> {
          fake.fakeReset();
          fake.fakeGranule(16 << 20);
          MulticastObject first = membersOf(memories).get(0);
          var error = assertThrows(NcclException.class, first::create);
          assertTrue(
              error.problem().contains("which takes multiples of 16777216 bytes"), error.problem());
          assertFalse(fake.fakeRecord().contains("cuMulticastCreate"), fake.fakeRecord());
          first.close();
        });
  }

  @Test
  void theEmulationIsTheSameMemoryEverywhereAndCallsNoMulticastFunction() {
    List<MulticastObject> members = members(Form.EMULATED);
    make(members);
    for (int writer = 0; writer < 2; writer++) {
      for (int view = 0; view < 2; view++) {
        ByteBuffer value = ByteBuffer.wrap(new byte[] {(byte) (1 + writer * 2 + view)});
        members.get(writer).multicast().views().get(view).write(BYTES - 1, value);
        ByteBuffer read = ByteBuffer.allocate(1);
        members.get(view).unicast().read(BYTES - 1, read);
        assertEquals(1 + writer * 2 + view, read.get(0));
      }
    }
    assertTrue(members.get(0).multicast().emulated());
    members.forEach(MulticastObject::close);
    assertFalse(fake.fakeRecord().contains("cuMulticast"), fake.fakeRecord());
    assertEquals(live, FakeCuda.live());
  }

  /** Every call of the making fails once, each time with all before it undone on both members. */
  @ParameterizedTest
  @EnumSource(Form.class)
  void whicheverCallFailsNothingIsLeft(Form form) {
    int failed = 0;
    boolean made = false;
    for (int nth = 1; !made; nth++) {
      fake.fakeReset();
      fake.fakeFailNth(nth, OUT_OF_MEMORY);
      List<MulticastObject> members = members(form);
      try {
        make(members);
        made = true;
      } catch (NcclException e) {
        assertTrue(e.problem().contains("cuM"), e.problem());
        failed++;
      }
      fake.fakeFailNth(0, 0);
      members.forEach(MulticastObject::close);
      assertEquals(live, FakeCuda.live(), "after call %d had failed".formatted(nth));
      assertFalse(fake.fakeRecord().contains("misuse"), fake.fakeRecord());
    }
    assertTrue(failed >= 16, failed + " calls");
  }

  /** A step of the undoing that fails is an error, and the rest is undone all the same. */
  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4, 5, 6, 7})
  void theUndoingGoesOnAfterAFailure(int nth) {
    List<MulticastObject> members = members(Form.DRIVER);
    make(members);
    fake.fakeReset();
    fake.fakeFailNth(nth, OUT_OF_MEMORY);
    assertThrows(CudaException.class, members.get(0)::close);
    members.get(1).close();
    assertEquals(14, calls().lines().count(), calls());
    assertEquals(live + 1, FakeCuda.live(), "what the failed call should have freed");
    live = FakeCuda.live();
  }

  @Test
  void theSwitchsRefusalNamesTheCall() {
    fake.fakeFail("cuMulticastCreate", NOT_SUPPORTED);
    List<MulticastObject> members = members(Form.DRIVER);
    var error = assertThrows(CudaException.class, members.get(0)::create);
    assertTrue(
        error.problem().contains("cuMulticastCreate for 2 devices and 6291456 bytes"),
        error.problem());
    members.forEach(MulticastObject::close);
    assertEquals(live, FakeCuda.live());
  }

  @Test
  void aDeviceSaysWhetherItHasMulticast() {
    assertEquals(null, CudaDevices.probe().device(0).multicastAbsence());
    assertFalse(fake.fakeRecord().contains("cuMulticast"), fake.fakeRecord());
  }

  @Test
  void aMemberThatWasNotAskedIsRefused() {
    List<MulticastObject> members = members(Form.DRIVER);
    members.get(0).create();
    int descriptor = DuplicateFd.of(members.get(0).descriptor());
    assertThrows(NcclException.class, () -> members.get(0).accept(1, descriptor));
    members.get(0).close();
    assertEquals(live, FakeCuda.live());
  }
}
