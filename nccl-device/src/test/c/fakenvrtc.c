// A compiler that takes NVRTC's place in tests: what it is given decides its answer. Of a source with "#error" the
// log is an error; else the code is a text with the architecture, the options, and the source's lines that
// name a macro or an assertion.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  char *source, *headers;
  char log[4096], image[4096];
  int ptx;
} Program;

static int architectures[] = {75, 80, 90};
static int compiled;

int fakeCompiled(void) { return compiled; }

int nvrtcVersion(int* major, int* minor) {
  *major = 12;
  *minor = 9;
  return 0;
}
const char* nvrtcGetErrorString(int result) {
  return result == 6 ? "NVRTC_ERROR_COMPILATION" : result == 5 ? "NVRTC_ERROR_INVALID_OPTION" : "NVRTC_SUCCESS";
}
int nvrtcGetNumSupportedArchs(int* n) {
  *n = 3;
  return 0;
}
int nvrtcGetSupportedArchs(int* to) {
  memcpy(to, architectures, sizeof architectures);
  return 0;
}
int nvrtcCreateProgram(void** p, const char* source, const char* name, int n, const char* const* headers,
                       const char* const* names) {
  Program* made = calloc(1, sizeof *made);
  made->source = strdup(source);
  made->headers = strdup(n == 1 && strstr(headers[0], "NCCL4J_REDUCTION_CUH") ? names[0] : "?");
  *p = made;
  return 0;
}
int nvrtcDestroyProgram(void** p) {
  Program* made = *p;
  free(made->source);
  free(made->headers);
  free(made);
  *p = NULL;
  return 0;
}
int nvrtcCompileProgram(void* p, int n, const char* const* options) {
  Program* made = p;
  compiled++;
  char all[2048] = "";
  for (int i = 0; i < n; i++) {
    if (strcmp(options[i], "--no-such-option") == 0) {
      snprintf(made->log, sizeof made->log, "nvrtc: error: unrecognized option %s\n", options[i]);
      return 5;
    }
    strcat(strcat(all, " "), options[i]);
    made->ptx |= strncmp(options[i], "--gpu-architecture=compute_", 27) == 0;
  }
  const char* error = strstr(made->source, "#error");
  if (error) {
    const char* begin = strstr(made->source, "#line 1 \"");
    int line = 0;
    for (const char* c = begin; c < error; c++) line += *c == '\n';
    snprintf(made->log, sizeof made->log, "%.*s(%d): error: #error\n",
             (int)strcspn(begin + 9, "\""), begin + 9, line);
    return 6;
  }
  snprintf(made->image, sizeof made->image, "functor%s with %s", all, made->headers);
  for (char* c = strtok(made->source, "\n"); c; c = strtok(NULL, "\n"))
    if (strncmp(c, "NCCL4J_", 7) == 0 || strncmp(c, "static_assert", 13) == 0)
      strcat(strcat(made->image, " "), c);
  return 0;
}
int nvrtcGetProgramLogSize(void* p, size_t* n) {
  *n = strlen(((Program*)p)->log) + 1;
  return 0;
}
int nvrtcGetProgramLog(void* p, char* to) {
  strcpy(to, ((Program*)p)->log);
  return 0;
}
static int size(void* p, size_t* n, int ptx) {
  if (((Program*)p)->ptx != ptx) return 5;
  *n = strlen(((Program*)p)->image) + 1;
  return 0;
}
static int image(void* p, char* to, int ptx) {
  if (((Program*)p)->ptx != ptx) return 5;
  strcpy(to, ((Program*)p)->image);
  return 0;
}
int nvrtcGetCUBINSize(void* p, size_t* n) { return size(p, n, 0); }
int nvrtcGetCUBIN(void* p, char* to) { return image(p, to, 0); }
int nvrtcGetPTXSize(void* p, size_t* n) { return size(p, n, 1); }
int nvrtcGetPTX(void* p, char* to) { return image(p, to, 1); }
