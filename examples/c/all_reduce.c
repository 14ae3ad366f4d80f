/* SPDX-FileCopyrightText: 2026 The Weft authors */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Every rank brings the numbers 1, 2, 3 ... times its rank plus one, and all get the sums.
 *
 * all_reduce: a rank of a launcher (weft run, torchrun, mpirun, srun, mpiexec).
 *
 * all_reduce ID_FILE RANK RANKS: a rank started by any means. Rank 0 writes the unique id into
 * ID_FILE, which must not exist, and the others wait for it.
 *
 * The file stands for whatever carries 128 bytes from rank 0 to the others. Who can read it can
 * join, so it is made readable for its owner alone.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include <weft/weft.h>

enum { kCount = 1000, kWaitS = 60 };

static weft_context* context;

static void must(weft_result result, const char* doing) {
  char text[1024];
  if (result == WEFT_OK) return;
  weft_last_error(context, text, sizeof(text));
  fprintf(stderr, "%s: %s: %s\n", doing, weft_result_name(result), text);
  exit(1);
}

static void fail(const char* doing) {
  perror(doing);
  exit(1);
}

/* Under another name first: whoever sees the file sees all of it. */
static void write_id(const char* path, const weft_unique_id* id) {
  char draft[4096];
  int file;
  if (snprintf(draft, sizeof(draft), "%s.draft", path) >= (int)sizeof(draft)) exit(1);
  file = open(draft, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (file < 0) fail(draft);
  if (write(file, id->bytes, sizeof(id->bytes)) != (ssize_t)sizeof(id->bytes)) fail(draft);
  if (close(file) != 0 || rename(draft, path) != 0) fail(path);
}

static void read_id(const char* path, weft_unique_id* id) {
  const struct timespec pause = {.tv_sec = 0, .tv_nsec = 10000000};
  int file = -1;
  int tries;
  for (tries = 0; file < 0 && tries < kWaitS * 100; ++tries) {
    file = open(path, O_RDONLY);
    if (file < 0) thrd_sleep(&pause, NULL);
  }
  if (file < 0) fail(path);
  if (read(file, id->bytes, sizeof(id->bytes)) != (ssize_t)sizeof(id->bytes)) {
    fprintf(stderr, "%s: holds no unique id\n", path);
    exit(1);
  }
  close(file);
}

static weft_comm* join_by_file(const char* path, uint32_t rank, uint32_t ranks) {
  weft_unique_id id;
  weft_comm* comm = NULL;
  if (rank == 0) {
    must(weft_get_unique_id(context, &id), "make a unique id");
    write_id(path, &id);
  } else {
    read_id(path, &id);
  }
  must(weft_comm_init_rank(context, NULL, ranks, &id, rank, &comm), "join");
  /* All are here: nobody needs it any more. */
  if (rank == 0 && unlink(path) != 0) fail(path);
  return comm;
}

int main(int argc, char** argv) {
  static float numbers[kCount];
  weft_comm* comm = NULL;
  weft_stream* stream = NULL;
  uint32_t rank = 0;
  uint32_t ranks = 0;
  int i;

  if (argc != 1 && argc != 4) {
    fprintf(stderr, "usage: %s [ID_FILE RANK RANKS]\n", argv[0]);
    return 2;
  }
  must(weft_context_create(NULL, &context), "create a context");
  if (argc == 1) {
    must(weft_comm_init_env(context, NULL, &comm), "join");
  } else {
    comm = join_by_file(argv[1], (uint32_t)strtoul(argv[2], NULL, 10),
                        (uint32_t)strtoul(argv[3], NULL, 10));
  }
  must(weft_comm_rank(comm, &rank), "ask for the rank");
  must(weft_comm_size(comm, &ranks), "ask for the number of ranks");
  must(weft_stream_create(context, &stream), "create a stream");

  for (i = 0; i < kCount; ++i)
    numbers[i] = (float)((i + 1) * (int)(rank + 1));
  must(weft_all_reduce(numbers, numbers, kCount, WEFT_FLOAT32, WEFT_SUM, comm, stream),
       "all-reduce");
  must(weft_stream_synchronize(stream), "wait for the all-reduce");
  for (i = 0; i < kCount; ++i) {
    const float expected = (float)(i + 1) * (float)ranks * (float)(ranks + 1) / 2;
    if (numbers[i] != expected) {
      fprintf(stderr, "rank %u: element %d is %g, not %g\n", rank, i, (double)numbers[i],
              (double)expected);
      return 1;
    }
  }
  printf("rank %u of %u: the sums begin with %g\n", rank, ranks, (double)numbers[0]);

  must(weft_comm_destroy(comm), "destroy the communicator");
  must(weft_stream_destroy(stream), "destroy the stream");
  must(weft_context_destroy(context), "destroy the context");
  return 0;
}
