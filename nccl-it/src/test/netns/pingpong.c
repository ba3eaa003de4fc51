/* Bounces messages over TCP, and prints what one takes one way: half a round trip, in microseconds.
 *
 *   pingpong PORT              answers
 *   pingpong PORT ADDRESS BYTES SECONDS   asks
 *
 * Blocking calls, no delay: what a plain C program does. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char buffer[1 << 16];

static void must(int ok, const char *what) {
  if (!ok) {
    perror(what);
    exit(1);
  }
}

static int readAll(int s, int bytes) {
  for (int got = 0; got < bytes;) {
    ssize_t n = read(s, buffer + got, bytes - got);
    if (n <= 0) return 0;
    got += n;
  }
  return 1;
}

static void writeAll(int s, int bytes) {
  for (int put = 0; put < bytes;) {
    ssize_t n = write(s, buffer + put, bytes - put);
    must(n > 0, "write");
    put += n;
  }
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

static int compare(const void *a, const void *b) {
  return (*(double *) a > *(double *) b) - (*(double *) a < *(double *) b);
}

static void answer(int port) {
  int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  must(bind(listener, (struct sockaddr *) &at, sizeof at) == 0, "bind");
  must(listen(listener, 1) == 0, "listen");
  for (;;) {
    int bytes, s = accept(listener, NULL, NULL);
    must(s >= 0, "accept");
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (read(s, &bytes, sizeof bytes) == sizeof bytes && bytes > 0 && bytes <= (int) sizeof buffer) {
      while (readAll(s, bytes)) writeAll(s, bytes);
    }
    close(s);
  }
}

int main(int n, char **words) {
  int one = 1;
  if (n == 2) answer(atoi(words[1]));
  must(n == 5, "usage: pingpong PORT [ADDRESS BYTES SECONDS]");
  int bytes = atoi(words[3]), s = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1]))};
  must(bytes > 0 && bytes <= (int) sizeof buffer, "size");
  must(inet_pton(AF_INET, words[2], &at.sin_addr) == 1, "address");
  must(connect(s, (struct sockaddr *) &at, sizeof at) == 0, "connect");
  setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  must(write(s, &bytes, sizeof bytes) == sizeof bytes, "write");
  double rounds[1000], end = now() + atof(words[4]) * 1e6;
  int round = 0;
  /* The median of many short rounds: another program may have a core for a while. */
  for (; round < 1000 && now() < end; round++) {
    double begin = now();
    for (int i = 0; i < 200; i++) {
      writeAll(s, bytes);
      must(readAll(s, bytes), "read");
    }
    rounds[round] = (now() - begin) / 400;
  }
  qsort(rounds, round, sizeof *rounds, compare);
  printf("%.2f\n", rounds[round / 2]);
  return 0;
}
