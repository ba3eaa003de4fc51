/* The record of all calls, each of which can be made to fail. */
/* Its own lock, since some are called with the other and some without: lines must not overlap. */
static pthread_mutex_t recording = PTHREAD_MUTEX_INITIALIZER;
static int record(const char *call) {
  pthread_mutex_lock(&recording);
  calls_length += snprintf(calls + calls_length, LOG_BYTES - calls_length, "%s\n", call);
  if (calls_length > LOG_BYTES - 100) calls_length = 0;
  int error = strcmp(call, fail_call) == 0 && fail_after-- <= 0 ? fail_errno : 0;
  if (error && fail_once) fail_call[0] = 0;
  pthread_mutex_unlock(&recording);
  if (error) errno = error;
  return error;
}

/* What frees an object of a dead device fails and frees nothing, as libibverbs' does. */
static int refused(const char *call, struct ibv_context *c) {
  int error = record(call);
  return error ? error : ((struct fake_device *)c->device)->deaths != ((struct fake_context *)c)->deaths ? EIO : 0;
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
  char text[200];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  record(text);
}

static uint64_t half(const uint8_t *raw) {
  uint64_t value = 0;
  for (int i = 0; i < 8; i++) value = value << 8 | raw[i];
  return value;
}
