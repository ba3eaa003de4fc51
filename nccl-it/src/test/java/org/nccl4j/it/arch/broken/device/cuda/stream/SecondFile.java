package org.nccl4j.it.arch.broken.device.cuda.stream;

/** One file more than a package of the fixture may have. */
public final class SecondFile {}
