package org.nccl4j.device.bind;

/**
 * The functions of NVIDIA's compiler of CUDA C++ at run time; see the NVRTC manual for each.
 * Programs are handles, and what C calls a pointer is an address, both longs. Called only by the
 * class that owns the library.
 */
public interface NvrtcFunctions {
  int nvrtcVersion(long major, long minor);

  String nvrtcGetErrorString(int result);

  int nvrtcGetNumSupportedArchs(long count);

  int nvrtcGetSupportedArchs(long architectures);

  int nvrtcCreateProgram(
      long program, long source, long name, int headers, long contents, long includeNames);

  int nvrtcDestroyProgram(long program);

  int nvrtcCompileProgram(long program, int count, long options);

  int nvrtcGetProgramLogSize(long program, long bytes);

  int nvrtcGetProgramLog(long program, long log);

  int nvrtcGetCUBINSize(long program, long bytes);

  int nvrtcGetCUBIN(long program, long image);

  int nvrtcGetPTXSize(long program, long bytes);

  int nvrtcGetPTX(long program, long text);
}
